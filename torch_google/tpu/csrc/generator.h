// SPDX-License-Identifier: Apache-2.0
// Random numbers: a seed, and how many operators have drawn since it was set.
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
  // 16 bytes on the CPU: seed and offset.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // Another generator with the same state: what one draws, the other does not
  // draw again.
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;
  void graphsafe_set_state(
      const c10::intrusive_ptr<c10::GeneratorImpl>& other) override;

  // The (seed, offset) of one operator; the next one gets another.
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
// Seeds the generator of every device that there is or may be; starts nothing.
void seed_all(uint64_t seed);

}  // namespace torch_google::tpu
