// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/hooks.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/generator.h"
#include "torch_google/tpu/csrc/guard.h"
#include "torch_google/tpu/csrc/pinned.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/torch_release.h"

namespace torch_google::tpu {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
#if !TORCH_GOOGLE_TORCH_2_6
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
#endif
  bool hasPrimaryContext(c10::DeviceIndex) const override { return started(); }
  void init() const override { start(); }

  c10::DeviceIndex deviceCount() const override { return device_count(); }
  c10::DeviceIndex getCurrentDevice() const override {
    return current_device();
  }
  void setCurrentDevice(c10::DeviceIndex device) const override {
    c10::impl::VirtualGuardImpl(kDevice).setDevice({kDevice, device});
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return c10::impl::VirtualGuardImpl(kDevice)
        .exchangeDevice({kDevice, device})
        .index();
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? current_device() : exchangeDevice(device);
  }

  const at::Generator& getDefaultGenerator(
      c10::DeviceIndex device) const override {
    return default_generator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    if (device < 0) {
      device = current_device();
    }
    check_device(device);
    return at::make_generator<Generator>(device);
  }

  at::Allocator* getPinnedMemoryAllocator() const override {
    return pinned_allocator();
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }

  void resizePrivateUse1Bytes(const c10::Storage& storage,
                              size_t bytes) const override {
    Gil gil;
    auto* implementation = storage.unsafeGetStorageImpl();
    box_of(*implementation).resize(bytes);
    implementation->set_nbytes(bytes);
  }
};

}  // namespace

void register_hooks() {
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
#if TORCH_GOOGLE_TORCH_2_6
  // In torch v2.6, torch.Generator("tpu") uses this registry instead of the
  // hooks.
  static const at::_GeneratorRegister generators(
      [](c10::DeviceIndex device) { return hooks.getNewGenerator(device); });
#endif
  register_pinned_allocator();
}

}  // namespace torch_google::tpu
