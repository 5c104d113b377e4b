# SPDX-License-Identifier: Apache-2.0
"""Test torch.accelerator, and moving modules, tensors and storages to the device."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from torch_google.tpu.release import V2_6


def test_parameters_stay_the_same_objects() -> None:
    model = nn.Linear(3, 3)
    weight = model.weight
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(torch.ones(1, 3)).sum().backward()
    gradient = weight.grad
    model.to("tpu")
    assert model.weight is weight
    assert weight.grad is gradient
    assert gradient is not None
    assert (weight.device.type, gradient.device.type) == ("tpu", "tpu")
    before = weight.detach().cpu()
    optimizer.step()
    torch.testing.assert_close(weight.detach().cpu(), before - 1)
    assert model.cpu().weight is weight


def test_shared_parameters_stay_shared() -> None:
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    second.weight = first.weight
    model = nn.Sequential(first, second).to("tpu")
    assert first.weight is second.weight
    assert len(list(model.parameters())) == 3
    copied = copy.deepcopy(model)
    assert copied[0].weight is copied[1].weight


def test_a_module_that_knows_its_sizes_later() -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d()).to("tpu")
    assert model(torch.ones(2, 5, device="tpu")).shape == (2, 3)
    weight = model[0].weight
    assert isinstance(weight, nn.Parameter)
    assert (weight.shape, weight.device.type) == ((3, 5), "tpu")


def test_no_other_kind_of_tensor_becomes_one_of_the_device() -> None:
    parameter = nn.Parameter(torch.ones(2))
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        parameter.data = torch.ones(2, device="meta")
    on_device = torch.ones(2, device="tpu")
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        on_device.data = torch.eye(2).to_sparse()


def test_without_values_then_there() -> None:
    with torch.device("meta"):
        model = nn.Linear(3, 2)
    model.to_empty(device="tpu")
    model.reset_parameters()
    assert model(torch.ones(1, 3, device="tpu")).shape == (1, 2)


def test_made_there() -> None:
    with torch.device("tpu"):
        tensors = [torch.zeros(2), nn.Linear(2, 2).weight, torch.tensor([1]), torch.arange(2)]
    torch.set_default_device("tpu")
    try:
        tensors += [torch.ones(2), nn.Linear(2, 2).bias, torch.randn(2), torch.as_tensor([1.0])]
    finally:
        torch.set_default_device(None)
    assert {tensor.device.type for tensor in tensors} == {"tpu"}
    assert torch.ones(2).device.type == "cpu"


def test_the_methods_that_are_named_after_the_device() -> None:
    x = torch.arange(3)
    for moved in (x.tpu(), x.tpu(0), x.tpu("tpu:0"), x.tpu(non_blocking=True), x.to("tpu")):
        assert (moved.is_tpu, moved.tolist()) == (True, [0, 1, 2])
    assert not x.is_tpu
    assert nn.Linear(2, 2).tpu().weight.is_tpu
    packed = nn.utils.rnn.pack_sequence([torch.ones(3, 2), torch.ones(2, 2)]).tpu()
    assert packed.is_tpu
    storage = x.untyped_storage()
    moved = storage.tpu()
    assert (moved.is_tpu, storage.is_tpu) == (True, False)
    assert bytes(moved.cpu()) == bytes(storage)


@pytest.mark.skipif(V2_6, reason="torch.accelerator of v2.6 has less")
def test_the_accelerator_is_the_device() -> None:
    accelerator = torch.accelerator
    assert accelerator.is_available()
    assert accelerator.current_accelerator() == torch.device("tpu")
    assert accelerator.device_count() == torch.tpu.device_count() == 1
    assert accelerator.current_device_index() == 0
    with accelerator.device_index(0):
        x = torch.ones(1000, device="tpu")
    accelerator.synchronize()
    assert accelerator.memory_allocated() >= x.nbytes
    assert accelerator.max_memory_allocated() >= x.nbytes
    accelerator.empty_cache()
    free, total = accelerator.get_memory_info()
    assert 0 <= free <= total
    assert torch.bfloat16 in accelerator.get_device_capability()["supported_dtypes"]
    assert accelerator.current_stream() == torch.tpu.current_stream()
    assert torch.get_device_module() is torch.tpu


def test_what_numpy_cannot_have() -> None:
    x = torch.ones(2, device="tpu")
    with pytest.raises(TypeError, match=r"Use Tensor.cpu\(\)"):
        x.numpy()
    assert x.type() == "torch.tpu.FloatTensor"


def test_modules_in_channels_last() -> None:
    results = []
    for device in ("cpu", "tpu"):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 2, 1)
        )
        model.to(device, memory_format=torch.channels_last)
        x = torch.randn(2, 3, 8, 8).to(device, memory_format=torch.channels_last)
        x.requires_grad_()
        result = model(x)
        result.square().sum().backward()
        assert x.grad is not None
        assert result.is_contiguous(memory_format=torch.channels_last)
        weight = model[0].weight
        assert isinstance(weight, nn.Parameter)
        assert weight.is_contiguous(memory_format=torch.channels_last)
        assert weight.grad is not None
        results.append([result.detach().cpu(), x.grad.cpu(), weight.grad.cpu()])
    torch.testing.assert_close(*results)
