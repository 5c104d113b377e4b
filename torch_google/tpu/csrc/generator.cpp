// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/generator.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Utils.h>

#include <array>
#include <cstring>
#include <vector>

#include "torch_google/tpu/csrc/guard.h"

namespace torch_google::tpu {
namespace {

const std::vector<at::Generator>& generators() {
  static const auto all = [] {
    std::vector<at::Generator> made;
    for (c10::DeviceIndex i = 0; i < kMaxDevices; ++i) {
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

void Generator::set_current_seed(uint64_t seed) { *state_ = {seed, 0}; }

uint64_t Generator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return state_->seed;
}

void Generator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  std::array<uint64_t, 2> words;
  TORCH_CHECK(state.numel() == sizeof(words), "tpu: a generator state has ",
              sizeof(words), " bytes, found ", state.numel(),
              ". Pass what get_state() returned");
  std::memcpy(words.data(), state.data(), sizeof(words));
  *state_ = {words[0], words[1]};
}

c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  const std::array<uint64_t, 2> words{state_->seed, state_->offset};
  // Do not call at::empty, which returns a tensor without memory under
  // FakeTensorMode.
  auto state = at::detail::empty_cpu(
      {sizeof(words)}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
  std::memcpy(state.mutable_data_ptr(), words.data(), sizeof(words));
  return state.getIntrusivePtr();
}

std::pair<uint64_t, uint64_t> Generator::draw() {
  std::lock_guard<std::mutex> lock(mutex_);
  return {state_->seed, state_->offset++};
}

Generator* Generator::clone_impl() const {
  auto* copy = new Generator(device().index());
  *copy->state_ = *state_;
  return copy;
}

c10::intrusive_ptr<c10::GeneratorImpl> Generator::graphsafe_get_state() const {
  auto other = c10::make_intrusive<Generator>(device().index());
  other->state_ = state_;
  return other;
}

void Generator::graphsafe_set_state(
    const c10::intrusive_ptr<c10::GeneratorImpl>& other) {
  auto* ours = dynamic_cast<Generator*>(other.get());
  TORCH_CHECK_TYPE(ours, "tpu: a generator state of ", other->device(),
                   " is not a state of a tpu generator. Pass what "
                   "graphsafe_get_state() returned");
  state_ = ours->state_;
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
