// SPDX-License-Identifier: Apache-2.0
// Devices and streams, and the current ones of each thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace torch_google::tpu {

constexpr c10::DeviceType kDevice = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex kMaxDevices = 64;

// Starts the platform. Idempotent. Throws in a child that was forked after the
// platform had started.
void start();
bool started();
// Stops autograd's device threads before the interpreter is finalised, because
// they would take the GIL of an interpreter that no longer exists.
void finish();
// Called in the child process after a fork.
void forked();
bool is_forked();
// The device count to report before the platform starts. torch asks for it, and
// must not wait for the start.
void expect_devices(c10::DeviceIndex count);
c10::DeviceIndex device_count();

c10::DeviceIndex current_device();
// Throws unless `device` is the index of a device.
void check_device(c10::DeviceIndex device);
c10::Stream current_stream(c10::DeviceIndex device);

void register_guard();

}  // namespace torch_google::tpu
