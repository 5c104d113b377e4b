// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/origin.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>

#include "torch_google/tpu/csrc/key.h"

namespace torch_google::tpu {
namespace {

thread_local std::string current_module;

}  // namespace

const std::string& module_name() { return current_module; }

void set_module_name(std::string name) { current_module = std::move(name); }

Origins& Origins::get() {
  // Never destroyed, because it owns Python objects.
  static auto* instance = new Origins;
  return *instance;
}

void Origins::start() {
  stop();
  recording_ = true;
}

std::pair<std::vector<Origins::Origin>, std::vector<Origins::Run>>
Origins::stop() {
  recording_ = false;
  first_ += static_cast<Id>(origins_.size());
  ids_.clear();
  forward_.clear();
  // Empty the map before its code objects are destroyed.
  const auto kinds = std::exchange(kinds_, {});
  return {std::exchange(origins_, {}), std::exchange(runs_, {})};
}

Origins::Id Origins::of(const Call& call) {
  Origin origin{module_name(), nullptr, 0, false};
  // Autograd's threads have no frames, except in Python functions that autograd
  // calls, such as a user's backward formula. When torch.utils.checkpoint
  // reruns a forward pass, there may be no frame of the user's code, but the
  // module is known.
  if (!find_frame(origin) && origin.module.empty()) {
    if (const auto node = torch::autograd::get_current_node()) {
      const auto found =
          forward_.find({node->thread_id(), node->sequence_nr()});
      if (found != forward_.end()) {
        origin = origins_[found->second - first_];
        origin.is_backward = true;
      }
    }
  }
  if (!recording_) {
    return 0;  // another thread has stopped the recording in the meantime
  }
  const Id id = id_of(std::move(origin));
  // torch creates an operator's autograd node right before it calls the
  // operator's kernel. An operator whose inputs require no gradient has no
  // node, so the thread's last node belongs to another operator.
  if (id && at::GradMode::is_enabled() &&
      std::any_of(
          call.tensors.begin(), call.tensors.end(),
          [](const at::Tensor* tensor) { return tensor->requires_grad(); })) {
    // An autograd node may call several operators. They all have the same
    // origin.
    forward_.try_emplace({at::RecordFunction::currentThreadId(),
                          at::sequence_number::peek() - 1},
                         id);
  }
  return id;
}

void Origins::ran(std::string program, const std::vector<Id>& operators) {
  Run run{std::move(program), {}};
  for (const Id id : operators) {
    run.operators.push_back(id < first_ ? -1 : int64_t{id} - first_);
  }
  runs_.push_back(std::move(run));
}

// Sets the innermost frame of the user's code, and returns whether there is
// one. In a backward pass, the frames and the module of its caller are ignored.
bool Origins::find_frame(Origin& origin) {
  PyFrameObject* next = PyThreadState_GetFrame(PyThreadState_Get());
  while (next) {
    const Ref frame(reinterpret_cast<PyObject*>(next));
    auto code =
        shared_object(reinterpret_cast<PyObject*>(PyFrame_GetCode(next)));
    const Kind kind = kind_of(code);
    if (kind == backward) {
      origin.module.clear();
      return false;
    }
    if (kind == user) {
      origin.code = std::move(code);
      origin.instruction = PyFrame_GetLasti(next);
      return true;
    }
    next = PyFrame_GetBack(next);
  }
  return false;
}

Origins::Kind Origins::kind_of(const SharedObject& code) {
  const auto found = kinds_.find(code.get());
  if (found != kinds_.end()) {
    return found->second.second;
  }
  const Ref answer = Ref::checked(
      PyObject_CallFunction(callbacks().frame_kind, "O", code.get()));
  const auto kind = static_cast<Kind>(PyLong_AsLong(answer.get()));
  kinds_.try_emplace(code.get(), code, kind);
  return kind;
}

Origins::Id Origins::id_of(Origin origin) {
  if (origin.module.empty() && !origin.code) {
    return 0;
  }
  const auto [entry, is_new] =
      ids_.try_emplace({origin.module, origin.code.get(), origin.instruction,
                        origin.is_backward},
                       first_ + static_cast<Id>(origins_.size()));
  if (is_new) {
    origins_.push_back(std::move(origin));
  }
  return entry->second;
}

}  // namespace torch_google::tpu
