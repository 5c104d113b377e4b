// SPDX-License-Identifier: Apache-2.0
// The tpu device's random number generator. Its state is a seed and an offset,
// which counts the operators that have drawn random numbers.
#pragma once

#include <ATen/core/Generator.h>

#include <memory>
#include <utility>

namespace torch_google::tpu {

class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex device);

  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override { return state_->seed; }
  uint64_t seed() override;
  void set_offset(uint64_t offset) override { state_->offset = offset; }
  uint64_t get_offset() const override { return state_->offset; }
  // A state is a CPU tensor of 16 bytes: seed and offset.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // Returns a generator that shares this state, so that the two never produce
  // the same numbers.
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;
  void graphsafe_set_state(
      const c10::intrusive_ptr<c10::GeneratorImpl>& other) override;

  // Returns the (seed, offset) for one operator, and advances the offset.
  std::pair<uint64_t, uint64_t> draw();

 private:
  Generator* clone_impl() const override;

  struct State {
    uint64_t seed = c10::default_rng_seed_val;
    uint64_t offset = 0;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

const at::Generator& default_generator(c10::DeviceIndex device);
// Seeds the generators of all possible devices, without initializing PJRT.
void seed_all(uint64_t seed);

}  // namespace torch_google::tpu
