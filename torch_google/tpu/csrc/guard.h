// SPDX-License-Identifier: Apache-2.0
// Devices, streams, and the current device and stream of each thread.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace torch_google::tpu {

constexpr c10::DeviceType kDevice = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex kMaxDevices = 64;

// Initializes PJRT and registers the device's kernels with torch. Idempotent.
// Throws in a child process if the parent had initialized PJRT before the fork.
void start();
bool started();
// Stops autograd's device threads before the interpreter is finalized, because
// they would try to acquire its GIL afterwards.
void finish();
// Marks this process as forked. Runs in the child after a fork.
void forked();
bool is_forked();
// Sets the device count to report until PJRT is initialized. torch queries the
// count early, and the query must not wait for the initialization.
void expect_devices(c10::DeviceIndex count);
c10::DeviceIndex device_count();

c10::DeviceIndex current_device();
// Whether a user has selected a device in any thread.
bool is_device_selected();
// Throws if no device has this index.
void check_device(c10::DeviceIndex device);
c10::Stream current_stream(c10::DeviceIndex device);

void register_guard();

}  // namespace torch_google::tpu
