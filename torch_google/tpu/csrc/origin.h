// SPDX-License-Identifier: Apache-2.0
// Records the origin of each operator, which is a module and a line of Python
// code, while a profiler trace is being recorded. Off by default.
#pragma once

#include <Python.h>

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "torch_google/tpu/csrc/python.h"

namespace torch_google::tpu {

struct Call;

// The name of the torch.nn.Module whose `forward` is running in this thread, or
// "". runtime/module_names.py sets it.
const std::string& module_name();
void set_module_name(std::string name);

// The GIL guards all state.
class Origins {
 public:
  // Identifies an origin. Unique within the process, because a fused trace may
  // contain operators that were recorded before start(). 0 stands for an
  // unknown origin.
  using Id = uint32_t;

  struct Origin {
    std::string module;  // "" if unknown
    // The code object and instruction offset of the user's frame. `code` is
    // null if no frame is known.
    SharedObject code;
    int instruction;
    // Whether the operator is part of the backward pass. The module and the
    // line are those of the forward operator.
    bool is_backward;
  };
  // One run of a program.
  struct Run {
    std::string program;
    // For each operator of the program, an index into the list of origins, or
    // -1 if the origin is unknown.
    std::vector<int64_t> operators;
  };

  static Origins& get();
  static bool is_recording() { return recording_; }

  void start();
  // Stops recording. Returns the origins and the runs since start(), in order.
  std::pair<std::vector<Origin>, std::vector<Run>> stop();

  // Returns the origin of a call in this thread. May call Python, which may
  // release the GIL.
  Id of(const Call& call);
  // Records a run of a program that computes operators with these origins.
  void ran(std::string program, const std::vector<Id>& operators);

 private:
  // The values that frame_kind() in errors.py returns.
  enum Kind : long { library, user, backward };
  // A thread that recorded a forward operator, and the sequence number of the
  // operator's autograd node. torch numbers each thread's nodes separately.
  using Node = std::pair<uint64_t, uint64_t>;

  bool find_frame(Origin& origin);
  Kind kind_of(const SharedObject& code);
  Id id_of(Origin origin);

  static inline bool recording_ = false;
  Id first_ = 1;  // the id of origins_[0]
  std::vector<Origin> origins_;
  std::map<std::tuple<std::string, PyObject*, int, bool>, Id> ids_;
  std::map<Node, Id> forward_;
  std::unordered_map<PyObject*, std::pair<SharedObject, Kind>> kinds_;
  std::vector<Run> runs_;
};

}  // namespace torch_google::tpu
