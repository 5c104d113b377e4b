// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/backend.h"

#include <ATen/ATen.h>
#include <pybind11/chrono.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <mutex>
#include <optional>
#include <utility>

#include "torch_google/tpu/csrc/box.h"
#include "torch_google/tpu/csrc/device_transfer.h"
#include "torch_google/tpu/csrc/guard.h"
#include "torch_google/tpu/csrc/host_group.h"
#include "torch_google/tpu/csrc/python.h"
#include "torch_google/tpu/csrc/torch_release.h"
#include "torch_google/tpu/csrc/trace.h"
#include "torch_google/tpu/csrc/transfer.h"
#include "torch_google/tpu/csrc/work.h"

namespace torch_google::tpu {
namespace {

namespace py = pybind11;
using c10d::OpType;
using TensorLists = std::vector<Tensors>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

class Backend final : public c10d::Backend {
 public:
  struct Options final : c10d::Backend::Options {
    explicit Options(std::chrono::milliseconds timeout)
        : c10d::Backend::Options("tpu", timeout) {}
  };

  // `gloo` transfers device tensors between the ranks, and `cpu` transfers CPU
  // tensors. Each has its own connections, because gloo matches the calls on a
  // connection by their order. `transport` moves the data of collectives
  // between devices. If it is null, gloo moves the data through the host.
  Backend(c10::intrusive_ptr<c10d::Backend> gloo,
          c10::intrusive_ptr<c10d::Backend> cpu,
          c10::intrusive_ptr<c10d::Store> store, HostGroup::Names names,
          std::chrono::milliseconds timeout, SharedObject transport)
      : c10d::Backend(gloo->getRank(), gloo->getSize()),
        gloo_(gloo),
        cpu_(std::move(cpu)),
        group_(std::make_shared<HostGroup>(std::move(gloo), std::move(store),
                                           std::move(names), timeout)),
        options_(c10::make_intrusive<Options>(timeout)),
        transport_(std::move(transport)) {}
  ~Backend() override { group_->close(); }

  // Sets the timeout for collectives on device tensors.
  void set_timeout(std::chrono::milliseconds timeout) {
    group_->set_timeout(timeout);
    options_->timeout = timeout;
  }
  // Returns the group that runs the collectives of compiled programs.
  std::shared_ptr<HostGroup> host_group() {
    group_->set_description(getGroupDesc());
    return group_;
  }

  const std::string getBackendName() const override { return "tpu"; }
#if !TORCH_GOOGLE_TORCH_2_6
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override {
    return options_;
  }
  void setTimeout(std::chrono::milliseconds timeout) override {
    set_timeout(timeout);
    cpu_->setTimeout(timeout);
  }
  void abort() override {
    group_->abort("tpu: torch.distributed: group '" + group_->description() +
                  "' was aborted");
  }
  void shutdown() override { group_->close(); }
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store,
      const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override {
    const auto part = [&](const c10::intrusive_ptr<c10d::Backend>& whole,
                          const char* prefix) {
      return whole->split(c10::make_intrusive<c10d::PrefixStore>(prefix, store),
                          ranks, whole->getBackendOptions());
    };
    auto gloo = part(gloo_, "tpu");
    auto cpu = part(cpu_, "cpu");
    if (!gloo) {
      return nullptr;  // this rank is not in the new group
    }
    HostGroup::Names names{options->group_name, {}};
    for (const int rank : ranks) {
      names.global_ranks.push_back(group_->names().global_ranks.at(rank));
    }
    SharedObject transport;
    if (transport_) {
      Gil gil;
      transport = part_of(transport_.get(), ranks);
    }
    return c10::make_intrusive<Backend>(
        std::move(gloo), std::move(cpu),
        c10::make_intrusive<c10d::PrefixStore>("tpu/state", store),
        std::move(names), options->timeout, std::move(transport));
  }
  // Return false so that batch_isend_irecv() issues every send and recv
  // separately. If one failed inside a coalescing block, torch would ignore all
  // later collectives of the group. Explicit coalescing blocks still work. In
  // torch v2.6, batch_isend_irecv() uses such a block only on CUDA.
  bool supportsCoalescing() const override { return false; }
#endif
  void startCoalescing() override {
    std::lock_guard<std::mutex> lock(mutex_);
    coalesced_.emplace();
  }
  WorkPtr endCoalescing() override {
    std::lock_guard<std::mutex> lock(mutex_);
    auto works = std::move(coalesced_).value_or(std::vector<WorkPtr>{});
    coalesced_.reset();
    return c10::make_intrusive<CoalescedWork>(getRank(), std::move(works));
  }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return group_->sequence(); }

  WorkPtr broadcast(Tensors& tensors,
                    const c10d::BroadcastOptions& options) override {
    if (is_on_cpu(tensors)) {
      return cpu_->broadcast(tensors, options);
    }
    auto collective = make(OpType::BROADCAST, "broadcast", options.timeout);
    collective.root = static_cast<int>(options.rootRank);
    if (transport_) {
      // All ranks run the same compiled program, so each rank passes the tensor
      // as both input and output.
      collective.inputs = collective.outputs = {single(collective, tensors)};
    } else {
      (getRank() == options.rootRank
           ? collective.inputs
           : collective.outputs) = {single(collective, tensors)};
    }
    return issue(std::move(collective), tensors);
  }
  WorkPtr allreduce(Tensors& tensors,
                    const c10d::AllreduceOptions& options) override {
    if (is_on_cpu(tensors)) {
      return cpu_->allreduce(tensors, options);
    }
    return all_reduce("all_reduce", tensors, options);
  }
  WorkPtr allreduce_coalesced(
      Tensors& tensors,
      const c10d::AllreduceCoalescedOptions& options) override {
    if (is_on_cpu(tensors)) {
      return cpu_->allreduce_coalesced(tensors, options);
    }
    return all_reduce("all_reduce_coalesced", tensors, options);
  }
  WorkPtr reduce(Tensors& tensors,
                 const c10d::ReduceOptions& options) override {
    if (is_on_cpu(tensors)) {
      return cpu_->reduce(tensors, options);
    }
    auto collective = make(OpType::REDUCE, "reduce", options.timeout);
    collective.root = static_cast<int>(options.rootRank);
    set_op(collective, options.reduceOp);
    collective.inputs = {single(collective, tensors)};
    if (getRank() == options.rootRank) {
      collective.outputs = tensors;
    }
    return issue(std::move(collective), tensors);
  }
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    if (is_on_cpu(inputs)) {
      return cpu_->allgather(outputs, inputs, options);
    }
    auto collective = make(OpType::ALLGATHER, "all_gather", options.timeout);
    collective.inputs = {single(collective, inputs)};
    collective.outputs = single_list(collective, outputs);
    return issue(std::move(collective), outputs[0]);
  }
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    if (input.is_cpu()) {
      return cpu_->_allgather_base(output, input, options);
    }
    auto collective = make(OpType::_ALLGATHER_BASE, "all_gather_into_tensor",
                           options.timeout);
    collective.inputs = {input};
    collective.outputs = {output};
    return issue(std::move(collective), {output});
  }
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override {
    if (is_on_cpu(inputs)) {
      return cpu_->allgather_coalesced(outputs, inputs, options);
    }
    // `outputs` is indexed as outputs[rank][tensor].
    std::vector<WorkPtr> works;
    for (size_t i = 0; i < inputs.size(); ++i) {
      auto collective =
          make(OpType::ALLGATHER, "all_gather_coalesced", options.timeout);
      collective.inputs = {inputs[i]};
      for (const auto& list : outputs) {
        TORCH_CHECK_VALUE(
            list.size() == inputs.size(),
            "tpu: torch.distributed: all_gather_coalesced: found ",
            inputs.size(), " inputs and a list of ", list.size(),
            " outputs. Each list has one output for each input");
        collective.outputs.push_back(list[i]);
      }
      const auto results = collective.outputs;
      works.push_back(issue(std::move(collective), results));
    }
    return c10::make_intrusive<CoalescedWork>(getRank(), std::move(works));
  }
  WorkPtr allgather_into_tensor_coalesced(
      Tensors& outputs, Tensors& inputs,
      const c10d::AllgatherOptions& options) override {
    if (is_on_cpu(inputs)) {
      return cpu_->allgather_into_tensor_coalesced(outputs, inputs, options);
    }
    auto collective = make(OpType::_ALLGATHER_BASE,
                           "all_gather_into_tensor_coalesced", options.timeout);
    collective.inputs = inputs;
    collective.outputs = outputs;
    return issue(std::move(collective), outputs);
  }
  WorkPtr gather(TensorLists& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    if (is_on_cpu(inputs)) {
      return cpu_->gather(outputs, inputs, options);
    }
    auto collective = make(OpType::GATHER, "gather", options.timeout);
    collective.root = static_cast<int>(options.rootRank);
    collective.inputs = {single(collective, inputs)};
    if (getRank() == options.rootRank) {
      collective.outputs = single_list(collective, outputs);
    }
    const auto results = collective.outputs;
    return issue(std::move(collective), results);
  }
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& options) override {
    if (is_on_cpu(outputs)) {
      return cpu_->scatter(outputs, inputs, options);
    }
    auto collective = make(OpType::SCATTER, "scatter", options.timeout);
    collective.root = static_cast<int>(options.rootRank);
    collective.outputs = {single(collective, outputs)};
    if (getRank() == options.rootRank) {
      collective.inputs = single_list(collective, inputs);
    }
    return issue(std::move(collective), outputs);
  }
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    if (is_on_cpu(outputs)) {
      return cpu_->reduce_scatter(outputs, inputs, options);
    }
    auto collective =
        make(OpType::REDUCE_SCATTER, "reduce_scatter", options.timeout);
    set_op(collective, options.reduceOp);
    collective.outputs = {single(collective, outputs)};
    collective.inputs = single_list(collective, inputs);
    return issue(std::move(collective), outputs);
  }
  WorkPtr _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input,
      const c10d::ReduceScatterOptions& options) override {
    if (input.is_cpu()) {
      return cpu_->_reduce_scatter_base(output, input, options);
    }
    auto collective = make(OpType::_REDUCE_SCATTER_BASE,
                           "reduce_scatter_tensor", options.timeout);
    set_op(collective, options.reduceOp);
    collective.inputs = {input};
    collective.outputs = {output};
    return issue(std::move(collective), {output});
  }
  WorkPtr reduce_scatter_tensor_coalesced(
      Tensors& outputs, Tensors& inputs,
      const c10d::ReduceScatterOptions& options) override {
    if (is_on_cpu(inputs)) {
      return cpu_->reduce_scatter_tensor_coalesced(outputs, inputs, options);
    }
    auto collective = make(kReduceScatterTensorCoalesced,
                           "reduce_scatter_tensor_coalesced", options.timeout);
    set_op(collective, options.reduceOp);
    collective.inputs = inputs;
    collective.outputs = outputs;
    return issue(std::move(collective), outputs);
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input,
                        std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& options) override {
    if (input.is_cpu()) {
      return cpu_->alltoall_base(output, input, output_splits, input_splits,
                                 options);
    }
    auto collective =
        make(OpType::ALLTOALL_BASE, "all_to_all_single", options.timeout);
    collective.inputs = {input};
    collective.outputs = {output};
    collective.input_splits = input_splits;
    collective.output_splits = output_splits;
    return issue(std::move(collective), {output});
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override {
    if (is_on_cpu(inputs)) {
      return cpu_->alltoall(outputs, inputs, options);
    }
    auto collective = make(OpType::ALLTOALL, "all_to_all", options.timeout);
    collective.inputs = inputs;
    collective.outputs = outputs;
    return issue(std::move(collective), outputs);
  }
  WorkPtr send(Tensors& tensors, int peer, int tag) override {
    if (is_on_cpu(tensors)) {
      return cpu_->send(tensors, peer, tag);
    }
    auto collective = make(OpType::SEND, "send", c10d::kUnsetTimeout);
    collective.peer = peer;
    collective.tag = tag;
    collective.inputs = {single(collective, tensors)};
    return issue(std::move(collective), tensors);
  }
  WorkPtr recv(Tensors& tensors, int peer, int tag) override {
    if (is_on_cpu(tensors)) {
      return cpu_->recv(tensors, peer, tag);
    }
    auto collective = make(OpType::RECV, "recv", c10d::kUnsetTimeout);
    collective.peer = peer;
    collective.tag = tag;
    collective.outputs = {single(collective, tensors)};
    return issue(std::move(collective), tensors, std::make_shared<int>(peer));
  }
  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    if (is_on_cpu(tensors)) {
      return cpu_->recvAnysource(tensors, tag);
    }
    auto collective = make(OpType::RECVANYSOURCE, "recv", c10d::kUnsetTimeout);
    collective.tag = tag;
    collective.outputs = {single(collective, tensors)};
    return issue(std::move(collective), tensors, std::make_shared<int>(-1));
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    if (started()) {
      // Flush all traces first, because a barrier also waits for pending work,
      // as on a GPU.
      Gil gil;
      FusedTrace::finish_all(-1, Reason::collective);
    }
    return issue(make(OpType::BARRIER, "barrier", options.timeout), {});
  }
  void monitoredBarrier(const c10d::BarrierOptions& options, bool) override {
    barrier(options)->wait();
  }

 private:
  static bool is_on_cpu(const Tensors& tensors) {
    return !tensors.empty() && tensors[0].is_cpu();
  }
  Collective make(OpType type, const char* name,
                  std::chrono::milliseconds timeout) const {
    Collective collective;
    collective.type = type;
    collective.name = name;
    collective.timeout = timeout;
    return collective;
  }
  static void set_op(Collective& collective, const c10d::ReduceOp& op) {
    collective.reduces = true;
    collective.op = op;
    if (const auto* supplement =
            dynamic_cast<c10d::PreMulSumSupplement*>(op.supplement_.get());
        supplement && supplement->tensor_factor.defined()) {
      // Copy the factor to the host, where the group's thread reads it.
      collective.op = c10d::makePreMulSum(supplement->tensor_factor.cpu());
    }
  }
  static const at::Tensor& single(const Collective& collective,
                                  const Tensors& tensors) {
    TORCH_CHECK_VALUE(tensors.size() == 1,
                      "tpu: torch.distributed: ", collective.name,
                      " takes one tensor, got ", tensors.size());
    return tensors[0];
  }
  static const Tensors& single_list(const Collective& collective,
                                    const TensorLists& lists) {
    TORCH_CHECK_VALUE(lists.size() == 1,
                      "tpu: torch.distributed: ", collective.name,
                      " takes one list of tensors, got ", lists.size());
    return lists[0];
  }

  WorkPtr all_reduce(const char* name, Tensors& tensors,
                     const c10d::AllreduceOptions& options) {
    auto collective = make(OpType::ALLREDUCE, name, options.timeout);
    set_op(collective, options.reduceOp);
    collective.inputs = tensors;
    collective.outputs = tensors;
    return issue(std::move(collective), tensors);
  }

  static void check_devices(const Collective& collective) {
    for (const auto* tensors : {&collective.inputs, &collective.outputs}) {
      for (const auto& tensor : *tensors) {
        TORCH_CHECK_VALUE(tensor.device().is_privateuseone(),
                          "tpu: torch.distributed: ", collective.name,
                          ": found tensors on tpu and on ", tensor.device(),
                          ". Move all of them to one device");
      }
    }
  }

  WorkPtr issue(Collective collective, const Tensors& results,
                std::shared_ptr<int> source = nullptr) {
    start();
    check_devices(collective);
    const auto type = collective.type;
    const std::string name = collective.name;
    group_->set_description(getGroupDesc());
    Gil gil;
    const bool on_device =
        transport_ && !is_message(type) && type != OpType::BARRIER;
    const auto transfer =
        transfer_of(collective, on_device ? Place::device : Place::host);
    auto arrival =
        on_device
            ? group_->post(
                  std::move(collective),
                  [transfer, transport = transport_](Collective& job) {
                    return prepare_on_device(*transfer, job, transport.get());
                  },
                  nullptr, layout_of(*transfer))
            : group_->post(
                  std::move(collective),
                  [transfer](Collective& job) {
                    return transfer->prepare(job);
                  },
                  source);
    std::vector<Ref> replaced;
    for (size_t i = 0; i < transfer->targets.size(); ++i) {
      transfer->targets[i].box->expect(arrival, i, replaced);
    }
    auto work = c10::make_intrusive<CollectiveWork>(
        getRank(), type, name, group_->sequence(), std::move(arrival), results,
        std::move(source));
    std::lock_guard<std::mutex> lock(mutex_);
    if (coalesced_) {
      coalesced_->push_back(work);
    }
    return work;
  }

  const c10::intrusive_ptr<c10d::Backend> gloo_;
  const c10::intrusive_ptr<c10d::Backend> cpu_;
  const std::shared_ptr<HostGroup> group_;
  const c10::intrusive_ptr<Options> options_;
  const SharedObject transport_;
  std::mutex mutex_;
  // The collectives of the current coalescing block, if one is open.
  std::optional<std::vector<WorkPtr>> coalesced_;
};

}  // namespace

void define_backend(py::module_& module) {
  if (py::hasattr(module, "Backend")) {
    return;
  }
#if !TORCH_GOOGLE_TORCH_2_6
  py::class_<Backend::Options, c10d::Backend::Options,
             c10::intrusive_ptr<Backend::Options>>(module, "Options")
      // torch copies a group's options when it splits the group.
      .def("__deepcopy__", [](const Backend::Options& self, const py::dict&) {
        return c10::make_intrusive<Backend::Options>(self);
      });
#endif
  py::class_<Backend, c10d::Backend, c10::intrusive_ptr<Backend>>(module,
                                                                  "Backend")
#if !TORCH_GOOGLE_TORCH_2_6
      .def_property_readonly("options", &Backend::getBackendOptions)
#endif
      // torch.distributed looks up this method by name.
      .def(
          "_set_default_timeout",
          [](Backend& self, std::chrono::milliseconds timeout) {
            self.set_timeout(timeout);
          },
          py::arg("timeout"))
      // A no-op, called by torch on the ranks that are not in a new group.
      .def("perform_nocolor_split", [](Backend&, const py::object&) {})
      .def(
          py::init([](const c10::intrusive_ptr<c10d::Backend>& gloo,
                      const c10::intrusive_ptr<c10d::Backend>& cpu,
                      const c10::intrusive_ptr<c10d::Store>& store,
                      const std::string& group,
                      const std::vector<int64_t>& global_ranks, double timeout,
                      const py::object& transport) {
            return c10::make_intrusive<Backend>(
                gloo, cpu, store, HostGroup::Names{group, global_ranks},
                std::chrono::milliseconds(static_cast<int64_t>(timeout * 1000)),
                transport.is_none() ? nullptr
                                    : shared_object(transport.inc_ref().ptr()));
          }),
          py::arg("gloo"), py::arg("cpu"), py::arg("store"), py::arg("group"),
          py::arg("global_ranks"), py::arg("timeout"), py::arg("transport"));
}

std::shared_ptr<HostGroup> host_group(const std::string& name) {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  try {
    group = c10d::resolve_process_group(name);
  } catch (const c10::Error&) {
    C10_THROW_ERROR(DistBackendError,
                    "tpu: torch.distributed: a compiled graph uses the process "
                    "group '" +
                        name +
                        "', which this process does not have. Create a group "
                        "with this name before the call");
  }
  auto* backend = dynamic_cast<Backend*>(group->getBackend(kDevice).get());
  TORCH_CHECK_WITH(
      DistBackendError, backend,
      "tpu: torch.distributed: a compiled graph uses the process group '", name,
      "', which has another backend for tpu tensors. Create it with the "
      "backend 'tpu'");
  return backend->host_group();
}

}  // namespace torch_google::tpu
