// SPDX-License-Identifier: Apache-2.0
// What a device was asked for and has not run yet: the fused mode's record.
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

// How long a trace may grow.
struct Limits {
  size_t operators = 4096;
  size_t bytes = size_t{4} << 30;
};
Limits& limits();

// Programs in the order in which they were called. Each result is a slot, which
// a box waits for; each value from before is an external. All threads record
// into one trace per device, under the GIL.
class FusedTrace {
 public:
  // Where a program's input comes from: a slot, or ~external.
  using Wire = int32_t;

  struct Step {
    std::shared_ptr<const Program> program;
    uint32_t wires;  // the first of its inputs
    uint32_t slots;  // the first of its results
  };
  struct Slot {
    Box* box;          // none where nobody will look
    int64_t previous;  // the slot that the box waited for before, or -1
  };
  struct External {
    Ref array;
    Box* box;  // none where the box died or got another value
    bool shared;
    // Where its box got another value, if the trace may reuse this one.
    int64_t slot;
  };

  // Records a program for the values of a call; the results are tensors that
  // wait for it. Runs the trace where that must not grow any longer.
  static Results record(std::shared_ptr<const Program> program,
                        const Call& call);
  // Runs the trace of a device, of all for a negative one, unless it is empty;
  // and waits for those that other threads run. Under the GIL, which others get
  // in the meantime.
  static void finish_all(c10::DeviceIndex device, Reason reason);

  explicit FusedTrace(c10::DeviceIndex device);
  // Runs this trace, or waits for the thread that does.
  void finish(Reason reason);

  // Called by boxes, with their mutex.
  void forget_slot(uint32_t slot) { slots[slot].box = nullptr; }
  void forget_external(uint32_t external) { externals[external].box = nullptr; }
  void share_external(uint32_t external) { externals[external].shared = true; }

  const c10::DeviceIndex device;
  const uint64_t serial;  // tells it from all others
  std::vector<Step> steps;
  std::vector<Wire> wires;
  std::vector<Slot> slots;
  std::vector<External> externals;
  // The numbers of all steps, and seeds with their offsets, in order.
  std::vector<double> floats;
  std::vector<int64_t> integers;
  // The steps and their wires: what was computed, but for what is kept of it.
  Key key;

  // Which slots anybody will look at, and which externals nobody else will: the
  // trace has taken these from their boxes. Called once, before it runs. The
  // first of both belong together, as many as it says: a box's next value, and
  // the one before. The others follow in ascending order.
  size_t detach(std::vector<uint32_t>& kept, std::vector<uint32_t>& donated);
  // Hands the values of these slots, a tuple, to their boxes.
  void store(c10::ArrayRef<uint32_t> kept, PyObject* arrays);
  // Hands out what was computed. Where nothing was, a box keeps what it had;
  // one that had nothing raises the error. `deleted` are externals.
  void fail(c10::ArrayRef<Ref> computed, PyObject* error,
            const std::vector<bool>& deleted);

 private:
  bool is_ready_for(Box& box) const;
  Wire wire(Box& box);
  void wait(Box& box, c10::StreamId stream);
  // Why the trace should end here, if it should.
  std::optional<Reason> end() const;
  void put(uint32_t slot, Ref array, std::vector<Ref>& replaced);

  size_t bytes_ = 0;
  bool repeats_ = false;
  Repetition repetition_;
};

}  // namespace torch_google::tpu
