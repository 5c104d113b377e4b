// SPDX-License-Identifier: Apache-2.0
#include "torch_google/tpu/csrc/transfer.h"

#include <ATen/ATen.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>

#include "torch_google/tpu/csrc/host_memory.h"

namespace torch_google::tpu {

at::Tensor Layout::view(const at::Tensor& storage) const {
  const auto item = static_cast<int64_t>(c10::elementSize(dtype));
  at::Tensor bytes = bytes_of(storage);
  bytes = bytes.narrow(0, 0, bytes.numel() / item * item);
  at::Tensor result = bytes.view(dtype).as_strided(sizes, strides, offset);
  if (is_conj) {
    result = at::_conj(result);
  }
  return is_neg ? at::_neg_view(result) : result;
}

Source::Source(Box& box, Place place)
    : bytes_(box.bytes()),
      shape_(box.shape),
      dtype_(box.dtype),
      device_(box.device) {
  if (box.arrival()) {
    arrival_ = box.arrival();
    output_ = box.output();
  } else if (!box.is_blank()) {
    array_ = Ref::borrow(box.value(Reason::collective)).give();
    if (place == Place::device) {
      return;
    }
    const Ref ready =
        Ref::checked(PyObject_CallMethod(array_, "is_ready", nullptr));
    if (PyObject_IsTrue(ready.get()) == 1) {
      read();
    }
  }
}

at::Tensor Source::storage() {
  if (arrival_) {
    arrival_->wait();
    const auto array = arrival_->array(output_);
    if (!array) {
      return arrival_->storage(output_);
    }
    if (!array_) {
      Gil gil;
      array_ = Ref::borrow(array.get()).give();
    }
  }
  if (array_ && !storage_.defined()) {
    Gil gil;
    read();
  }
  if (!storage_.defined()) {
    storage_ = at::zeros({static_cast<int64_t>(bytes_)}, at::kByte);
  }
  return storage_;
}

Ref Source::array() {
  if (arrival_) {
    arrival_->wait();
    if (const auto array = arrival_->array(output_)) {
      return Ref::borrow(array.get());
    }
    return Ref::checked(PyObject_CallFunction(
        callbacks().received, "NOOi",
        THPVariable_Wrap(arrival_->storage(output_).clone()),
        tuple_of(shape_).get(), torch::getTHPDtype(dtype_),
        static_cast<int>(device_)));
  }
  if (array_) {
    return Ref::borrow(array_);
  }
  return Ref::checked(PyObject_CallFunction(
      callbacks().zeros, "OOii", tuple_of(shape_).get(),
      torch::getTHPDtype(dtype_), static_cast<int>(device_), kOneDevice));
}

void Source::read() {
  const Ref tensor =
      Ref::checked(PyObject_CallFunction(callbacks().to_host, "O", array_));
  storage_ = THPVariable_Unpack(tensor.get());
}

HostGroup::Results Transfer::prepare(Collective& collective) const {
  HostGroup::Results results;
  collective.inputs.clear();
  collective.outputs.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    collective.inputs.push_back(inputs[i]
                                    .view(sources[i]->storage())
                                    .resolve_conj()
                                    .resolve_neg()
                                    .contiguous());
  }
  for (const auto& target : targets) {
    at::Tensor storage =
        host_empty({static_cast<int64_t>(target.bytes)}, at::kByte);
    if (target.old) {
      storage.copy_(bytes_of(target.old->storage()));
    }
    results.storages.push_back(storage.view(target.dtype));
  }
  for (const auto& [layout, index] : outputs) {
    at::Tensor view = layout.view(results.storages[index]);
    if (view.is_contiguous() && !view.is_conj() && !view.is_neg()) {
      collective.outputs.push_back(view);
    } else {
      collective.outputs.push_back(
          host_empty(view.sizes(), view.scalar_type()));
      results.copies.emplace_back(view, collective.outputs.back());
    }
  }
  return results;
}

std::shared_ptr<Transfer> transfer_of(const Collective& collective,
                                      Place place) {
  auto transfer = std::make_shared<Transfer>();
  const auto box_in = [](const at::Tensor& tensor) -> Box& {
    auto* implementation = tensor.unsafeGetTensorImpl();
    Box& box = box_of(*implementation);
    box.settle(*implementation);
    return box;
  };
  for (const auto& input : collective.inputs) {
    transfer->sources.push_back(std::make_shared<Source>(box_in(input), place));
    transfer->inputs.emplace_back(input);
  }
  std::vector<size_t> covered;
  auto& targets = transfer->targets;
  for (const auto& output : collective.outputs) {
    Box& box = box_in(output);
    size_t index = 0;
    while (index < targets.size() && targets[index].box != &box) {
      ++index;
    }
    if (index == targets.size()) {
      targets.push_back(
          {&box, box.bytes(), box.shape, box.dtype, box.device, nullptr});
      covered.push_back(0);
    }
    if (output.is_non_overlapping_and_dense()) {
      covered[index] += output.numel() * output.itemsize();
    }
    transfer->outputs.emplace_back(Layout(output), index);
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (covered[i] < targets[i].bytes) {
      targets[i].old = std::make_shared<Source>(*targets[i].box, place);
    }
  }
  return transfer;
}

}  // namespace torch_google::tpu
