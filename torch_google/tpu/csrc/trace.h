// SPDX-License-Identifier: Apache-2.0
// A trace is a sequence of operator calls that fused mode has recorded but not
// yet run.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/key.h"
#include "torch_google/tpu/csrc/origin.h"
#include "torch_google/tpu/csrc/program.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/repetition.h"

namespace torch_google::tpu {

// A trace is flushed when it reaches one of these limits.
struct Limits {
  size_t operators = 4096;
  size_t bytes = size_t{4} << 30;
};
Limits& limits();

// A sequence of program calls that have not run yet. Each value that the calls
// compute has a slot and a box (the contents of a storage; see box.h) that
// receives the value after the run. Each value that existed before the trace is
// an external. Under the GIL, all threads record into the same trace for a
// device.
class FusedTrace {
 public:
  // The source of a program's input: the index of a slot, or the bitwise
  // complement of the index of an external.
  using Wire = int32_t;

  struct Step {
    std::shared_ptr<const Program> program;
    uint32_t wires;  // index of the wire of the step's first input
    uint32_t slots;  // index of the slot of the step's first result
    Origins::Id origin;
  };
  struct Slot {
    Box* box;          // the box that stores the result; null if it is unused
    int64_t previous;  // the slot of the box's previous value, or -1
    Sharding sharding;
  };
  struct External {
    Ref array;
    Box* box;  // null if the box was destroyed or overwritten
    bool shared;
    // The slot of the box's next value if the trace may write that value to
    // this buffer, otherwise -1.
    int64_t slot;
    Sharding sharding;
  };

  // Records a call to a program. Flushes the trace if it then reaches a limit.
  // Returns tensors whose boxes (box.h) get their values when the trace runs.
  // Throws LayoutChanged under the same condition as Program::run(), and uses
  // `drawn` in the same way.
  static Results record(std::shared_ptr<const Program> program,
                        const Call& call, std::optional<Draw>& drawn);
  // Runs the trace of a device, or of all devices if `device` is negative. Also
  // waits for traces that other threads are running. The caller must hold the
  // GIL. This function releases it while it waits.
  static void finish_all(c10::DeviceIndex device, Reason reason);

  explicit FusedTrace(c10::DeviceIndex device);
  // Runs this trace, or waits for the thread that is running it.
  void finish(Reason reason);

  // Boxes (box.h) call these functions while they hold Box::mutex().
  void forget_slot(uint32_t slot) { slots[slot].box = nullptr; }
  void forget_external(uint32_t external) { externals[external].box = nullptr; }
  void share_external(uint32_t external) { externals[external].shared = true; }

  const c10::DeviceIndex device;
  const uint64_t serial;  // a number that is unique within the process
  std::vector<Step> steps;
  std::vector<Wire> wires;
  std::vector<Slot> slots;
  std::vector<External> externals;
  // The scalar inputs of all steps in order, including seeds and offsets.
  std::vector<double> floats;
  std::vector<int64_t> integers;
  // The part of the fused program's key that describes the steps and the
  // sources of their inputs. run.cpp adds the slots to keep and the externals
  // to donate.
  Key key;
  // The mesh on which sharded values are computed, or kOneDevice if no value is
  // sharded.
  Sharding mesh = kOneDevice;

  // Finds the slots that are still referenced (`kept`) and the externals, or
  // inputs, to which only this trace refers (`donated`), and removes the
  // donated externals from their boxes (box.h). Returns the number of pairs, N:
  // for i < N, kept[i] is the next value of the box whose old value is
  // donated[i]. The other entries of each list are in ascending order. Call it
  // once, before the run.
  size_t detach(std::vector<uint32_t>& kept, std::vector<uint32_t>& donated);
  // Stores `arrays`, a tuple of the kept slots' values, in their boxes.
  void store(c10::ArrayRef<uint32_t> kept, PyObject* arrays);
  // Stores the values that were computed before an error. A box without a
  // computed value keeps its previous value, or gets the error if it has no
  // previous value. `deleted` marks externals whose buffers have been deleted.
  void fail(c10::ArrayRef<Ref> computed, PyObject* error,
            const std::vector<bool>& deleted);

 private:
  bool is_ready_for(Box& box) const;
  Wire wire(Box& box);
  void wait(Box& box, c10::StreamId stream, Sharding sharding);
  // Returns the reason to flush the trace now, if there is one.
  std::optional<Reason> end() const;
  void put(uint32_t slot, Ref array, Sharding sharding,
           std::vector<Ref>& replaced);

  size_t bytes_ = 0;
  bool repeats_ = false;
  Repetition repetition_;
};

}  // namespace torch_google::tpu
