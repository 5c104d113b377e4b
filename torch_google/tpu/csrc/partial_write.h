// SPDX-License-Identifier: Apache-2.0
// Runs programs that write to a few elements of a large storage without copying
// the rest of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/key.h"
#include "torch_google/tpu/csrc/python.h"

namespace torch_google::tpu {

class Program;

// The number of calls that overwrote elements of a storage without copying the
// storage, by a program or a CPU kernel.
uint64_t in_place_writes();
void reset_in_place_writes();
void count_in_place_write();

// The variant of a Program that donates one input, the storage that the
// operator writes to: it may overwrite that array, which must have no other
// owner. Guarded by the GIL.
class PartialWrite {
 public:
  // `input` is the storage's position in the program's inputs.
  explicit PartialWrite(size_t input) : input_(input) {}

  // Runs the variant and stores the storage's new value. Returns false, without
  // any effect, if the call must run the program itself: because copying the
  // storage is cheap, because the array has another owner, or because the
  // variant is not compiled yet. It is compiled after several suitable calls.
  bool run(const Program& program, const Call& call);

 private:
  // `trial` means that the variant is compiled but has never run.
  enum State { counting, trial, ready, failed };

  // Returns whether the call writes to few elements of a large storage that the
  // program does not read through another input.
  bool is_suitable(const Program& program, const Call& call) const;
  bool is_compiled(const Program& program);
  // Runs the variant. Returns the storage's new value, or null and the error if
  // the run failed. `arguments` has the same format as in Program::call().
  Ref call(const c10::SmallVectorImpl<PyObject*>& arguments, Ref& error) const;
  // Runs the variant for the first time. If the run fails, sets `old` to the
  // storage's old value, of which Python kept a copy. Later runs do not need
  // that protection, because they need no more memory than the first one.
  // `error` is set if a signal handler raised an exception.
  Ref attempt(const c10::SmallVectorImpl<PyObject*>& arguments, Ref& old,
              Ref& error);

  const size_t input_;
  State state_ = counting;
  uint32_t uses_ = 0;
  uint32_t failures_ = 0;
  Ref function_;
  size_t scratch_ = 0;
};

}  // namespace torch_google::tpu
