// SPDX-License-Identifier: Apache-2.0
// Devices and streams: which there are, and which are current in this thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace torch_google::tpu {

constexpr c10::DeviceType kDevice = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex kMaxDevices = 64;

// Starts the platform unless it runs. Raises in a process that was forked from
// a running one.
void start();
bool started();
// Ends the threads of autograd that work for the device, at the end of the
// process: they would ask for the GIL of an interpreter that is no more.
void finish();
// Called in the child of a fork.
void forked();
bool is_forked();
// How many devices to expect before the platform starts: torch asks, and may
// not wait.
void expect_devices(c10::DeviceIndex count);
c10::DeviceIndex device_count();

c10::DeviceIndex current_device();
// Raises for an index that is no device.
void check_device(c10::DeviceIndex device);
c10::Stream current_stream(c10::DeviceIndex device);

void register_guard();

}  // namespace torch_google::tpu
