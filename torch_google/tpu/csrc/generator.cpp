// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/generator.h"

#include <ATen/Utils.h>
#include <ATen/ops/empty.h>

#include <array>
#include <cstring>
#include <vector>

#include "torch_google/tpu/csrc/guard.h"

namespace torch_google::tpu {
namespace {

using State = std::array<uint64_t, 2>;

const std::vector<at::Generator>& generators() {
  static const auto all = [] {
    std::vector<at::Generator> made;
    for (c10::DeviceIndex i = 0; i < kMostDevices; ++i) {
      made.push_back(at::make_generator<Generator>(i));
    }
    return made;
  }();
  return all;
}

}  // namespace

Generator::Generator(c10::DeviceIndex device)
    : c10::GeneratorImpl({kDevice, device},
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void Generator::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

uint64_t Generator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}

void Generator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  State words;
  TORCH_CHECK(state.numel() == sizeof(words),
              "tpu: a state of a generator has ", sizeof(words),
              " bytes, this one ", state.numel(),
              ". Use what get_state() returned");
  std::memcpy(words.data(), state.data(), sizeof(words));
  seed_ = words[0];
  offset_ = words[1];
}

c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  const State words{seed_, offset_};
  auto state = at::empty({sizeof(words)},
                         at::TensorOptions().dtype(at::kByte).device(at::kCPU));
  std::memcpy(state.mutable_data_ptr(), words.data(), sizeof(words));
  return state.getIntrusivePtr();
}

std::pair<uint64_t, uint64_t> Generator::draw() {
  std::lock_guard<std::mutex> lock(mutex_);
  return {seed_, offset_++};
}

Generator* Generator::clone_impl() const {
  auto* copy = new Generator(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  if (device < 0) {
    device = current_device();
  }
  check_device(device);
  return generators()[device];
}

void seed_all(uint64_t seed) {
  for (at::Generator generator : generators()) {
    std::lock_guard<std::mutex> lock(generator.mutex());
    generator.get<Generator>()->set_current_seed(seed);
  }
}

}  // namespace torch_google::tpu
