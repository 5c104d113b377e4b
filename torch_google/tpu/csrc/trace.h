// SPDX-License-Identifier: Apache-2.0
// The fused mode's record of operators that have not run yet.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/key.h"
#include "torch_google/tpu/csrc/program.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/repetition.h"

namespace torch_google::tpu {

// The limits at which a trace is flushed.
struct Limits {
  size_t operators = 4096;
  size_t bytes = size_t{4} << 30;
};
Limits& limits();

// Programs in call order. Each result is a slot, which a box waits for. Each
// value from before the trace is an external. All threads record into one trace
// per device, under the GIL.
class FusedTrace {
 public:
  // The source of a program's input: a slot, or ~external.
  using Wire = int32_t;

  struct Step {
    std::shared_ptr<const Program> program;
    uint32_t wires;  // index of its first input
    uint32_t slots;  // index of its first result
  };
  struct Slot {
    Box* box;          // null if the result is unused
    int64_t previous;  // the slot of the box's previous value, or -1
    Sharding sharding;
  };
  struct External {
    Ref array;
    Box* box;  // null if the box died or got another value
    bool shared;
    // The slot of its box's next value if the trace may reuse this buffer, or
    // -1.
    int64_t slot;
    Sharding sharding;
  };

  // Records a call of a program. The returned tensors wait for the trace.
  // Flushes the trace if it has reached a limit.
  static Results record(std::shared_ptr<const Program> program,
                        const Call& call);
  // Runs the trace of a device, or of all devices if `device` is negative, and
  // waits for traces that other threads run. Needs the GIL, and releases it
  // while it waits.
  static void finish_all(c10::DeviceIndex device, Reason reason);

  explicit FusedTrace(c10::DeviceIndex device);
  // Runs this trace, or waits for the thread that runs it.
  void finish(Reason reason);

  // Called by boxes, with Box::mutex() held.
  void forget_slot(uint32_t slot) { slots[slot].box = nullptr; }
  void forget_external(uint32_t external) { externals[external].box = nullptr; }
  void share_external(uint32_t external) { externals[external].shared = true; }

  const c10::DeviceIndex device;
  const uint64_t serial;  // unique within the process
  std::vector<Step> steps;
  std::vector<Wire> wires;
  std::vector<Slot> slots;
  std::vector<External> externals;
  // The numbers of all steps in order, with seeds and offsets.
  std::vector<double> floats;
  std::vector<int64_t> integers;
  // Steps and wires: the computation, without the choice of results to keep.
  Key key;
  // The mesh of the steps with sharded values, or kOneDevice if there are none.
  Sharding mesh = kOneDevice;

  // Returns the slots that are still referenced (`kept`) and the externals that
  // only this trace refers to (`donated`), and removes the latter from their
  // boxes. Call it once, before the run. The first N of both lists, N being the
  // return value, are pairs: a box's next value and its previous one. The rest
  // is in ascending order.
  size_t detach(std::vector<uint32_t>& kept, std::vector<uint32_t>& donated);
  // Stores `arrays`, a tuple with the values of the kept slots, in their boxes.
  void store(c10::ArrayRef<uint32_t> kept, PyObject* arrays);
  // Stores the values that were computed before an error. A box without one
  // keeps its previous value; a box that has no value at all gets the error.
  // `deleted` marks externals whose buffer is gone.
  void fail(c10::ArrayRef<Ref> computed, PyObject* error,
            const std::vector<bool>& deleted);

 private:
  bool is_ready_for(Box& box) const;
  Wire wire(Box& box);
  void wait(Box& box, c10::StreamId stream, Sharding sharding);
  // The reason to flush the trace now, if there is one.
  std::optional<Reason> end() const;
  void put(uint32_t slot, Ref array, Sharding sharding,
           std::vector<Ref>& replaced);

  size_t bytes_ = 0;
  bool repeats_ = false;
  Repetition repetition_;
};

}  // namespace torch_google::tpu
