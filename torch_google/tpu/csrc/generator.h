// SPDX-License-Identifier: Apache-2.0
// Random numbers: a seed, and how many operators have drawn since it was set.
#pragma once

#include <ATen/core/Generator.h>

#include <utility>

namespace torch_google::tpu {

class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex device);

  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  // 16 bytes on the CPU: seed and offset.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // The (seed, offset) of one operator; the next one gets another.
  std::pair<uint64_t, uint64_t> draw();

 private:
  Generator* clone_impl() const override;

  uint64_t seed_ = c10::default_rng_seed_val;
  uint64_t offset_ = 0;
};

const at::Generator& default_generator(c10::DeviceIndex device);
// Seeds the generator of every device that there is or may be; starts nothing.
void seed_all(uint64_t seed);

}  // namespace torch_google::tpu
