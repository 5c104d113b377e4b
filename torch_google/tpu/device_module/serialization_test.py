# SPDX-License-Identifier: Apache-2.0
"""Tensors, modules and optimizers can be saved, loaded, pickled and copied."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from torch_google.tpu import _C


def example() -> dict[str, Any]:
    x = torch.arange(12.0).reshape(3, 4)
    return {
        "matrix": x.to("tpu"),
        "half": x.to(torch.bfloat16).to("tpu"),
        "complex": x.to(torch.complex64).to("tpu"),
        "mask": (x > 3).to("tpu"),
        "nothing": torch.empty(0, 3, device="tpu"),
        "eight": x.to(torch.float8_e4m3fn).to("tpu"),
        "parameter": nn.Parameter(x.to("tpu")),
    }


def through_a_file(value: Any, where: Any = None) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, map_location=where)


@pytest.mark.parametrize(
    ("where", "device"),
    [
        (None, "tpu"),
        ("cpu", "cpu"),
        ("tpu", "tpu"),
        ("tpu:0", "tpu"),
        (torch.device("cpu"), "cpu"),
        ({"tpu:0": "cpu"}, "cpu"),
        (lambda storage, location: storage, "cpu"),
    ],
)
def test_load_puts_tensors_where_it_is_told(where: Any, device: str) -> None:
    saved = example()
    for name, loaded in through_a_file(saved, where).items():
        assert loaded.device.type == device
        assert type(loaded) is type(saved[name])
        assert loaded.dtype == saved[name].dtype
        assert torch.equal(loaded.cpu().to(torch.complex64), saved[name].cpu().to(torch.complex64))


def test_tensors_of_the_cpu_are_loaded_to_the_device() -> None:
    assert through_a_file(torch.ones(2), "tpu").tolist() == [1.0, 1.0]
    assert through_a_file(torch.ones(2), "tpu").device == torch.device("tpu:0")


def test_a_file_may_be_mapped(tmp_path: Path) -> None:
    torch.save({"x": torch.arange(3)}, tmp_path / "file")
    loaded = torch.load(tmp_path / "file", mmap=True, map_location="tpu")
    assert (loaded["x"].device.type, loaded["x"].tolist()) == ("tpu", [0, 1, 2])


def through_an_old_file(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    return torch.load(file)


@pytest.mark.parametrize("carry", [through_a_file, through_an_old_file, copy.deepcopy])
def test_views_go_on_sharing(carry: Callable[[Any], Any]) -> None:
    base = torch.arange(6.0).reshape(2, 3).to("tpu")
    first, row, turned = carry([base, base[1], base.t()])
    assert turned.stride() == (1, 3)
    first[1].zero_()
    assert row.tolist() == [0.0] * 3
    assert turned.tolist() == [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]
    assert base[1].tolist() == [3.0, 4.0, 5.0]


def test_pickle() -> None:
    model = nn.Linear(3, 2).to("tpu")
    tensor, loaded = pickle.loads(pickle.dumps((torch.arange(6.0).to("tpu")[::2], model)))
    assert (tensor.device.type, tensor.tolist()) == ("tpu", [0.0, 2.0, 4.0])
    assert isinstance(loaded.weight, nn.Parameter)
    assert loaded.weight.device.type == "tpu"
    assert torch.equal(loaded.weight, model.weight)


@pytest.mark.parametrize("carry", [through_a_file, copy.deepcopy])
def test_programs_take_what_was_carried_as_they_took_the_original(
    carry: Callable[[Any], Any],
) -> None:
    saved = example()
    saved["turned"] = torch.ones(2, 3, 4, 5).to("tpu").to(memory_format=torch.channels_last)
    for name, loaded in carry(saved).items():
        assert _C.natural_dtype(loaded) == saved[name].dtype
        assert _C.natural_shape(loaded) == _C.natural_shape(saved[name])


@pytest.mark.parametrize("mode", ["strict", "fused"])
def test_a_resumed_optimizer_has_the_programs_of_the_first(mode: str) -> None:
    parameters = [torch.ones(4, 3, device="tpu", requires_grad=True)]
    optimizer = torch.optim.AdamW(parameters, foreach=True)

    def step() -> None:
        optimizer.zero_grad()
        (parameters[0] * 3).square().sum().backward()
        optimizer.step()
        parameters[0].sum().item()
        torch.tpu.wait_for_compiles()

    with torch.tpu.eager_mode(mode):
        for _ in range(3):
            step()
        steps = {index: state["step"] for index, state in optimizer.state_dict()["state"].items()}
        state = through_a_file(optimizer.state_dict(), "tpu")
        for index, count in steps.items():
            # Loading moved all state to the device. Restore the step counts, which are CPU tensors.
            state["state"][index]["step"] = count
        optimizer.load_state_dict(state)
        before = torch.tpu.metrics()
        for _ in range(3):
            step()
        assert torch.tpu.metrics().compiles == before.compiles


@pytest.mark.parametrize("mode", ["strict", "fused"])
def test_a_tensor_takes_the_bytes_of_another(mode: str) -> None:
    with torch.tpu.eager_mode(mode):
        raw = torch.zeros(8, dtype=torch.uint8, device="tpu").add_(1)
        floats = torch.empty(0, device="tpu").set_(raw.untyped_storage(), 0, (2,), (1,))
        assert torch.equal(floats.cpu(), torch.ones(8, dtype=torch.uint8).view(torch.float32))
        raw[4:].zero_()
        assert floats[1].item() == 0
        floats.fill_(1)
        assert raw.tolist() == torch.ones(2).view(torch.uint8).tolist()


def test_bytes_that_no_bool_has_stay() -> None:
    raw = torch.tensor([0, 1, 2, 255], dtype=torch.uint8).to("tpu")
    flags = torch.empty(0, dtype=torch.bool, device="tpu").set_(raw.untyped_storage())
    assert flags.tolist() == [False, True, True, True]
    assert raw.tolist() == [0, 1, 2, 255]


def test_deepcopy_of_a_leaf_takes_its_gradient() -> None:
    leaf = torch.ones(2, device="tpu", requires_grad=True)
    (leaf * 3).sum().backward()
    copied = copy.deepcopy(leaf)
    assert copied.requires_grad
    assert copied.grad is not None
    assert (copied.grad.device.type, copied.grad.tolist()) == ("tpu", [3.0, 3.0])


def test_states_of_models_and_optimizers() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters())
    inputs = torch.arange(6.0).reshape(2, 3)
    model(inputs.to("tpu")).square().sum().backward()
    optimizer.step()
    state = through_a_file(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "cpu"
    )

    cpu_model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    cpu_model.load_state_dict(state["model"])
    their_optimizer = torch.optim.AdamW(cpu_model.parameters())
    their_optimizer.load_state_dict(state["optimizer"])
    for one, some, device in ((model, optimizer, "tpu"), (cpu_model, their_optimizer, "cpu")):
        one.zero_grad()
        one(inputs.to(device)).square().sum().backward()
        some.step()
    for parameter, cpu_parameter in zip(model.parameters(), cpu_model.parameters(), strict=True):
        torch.testing.assert_close(parameter.cpu(), cpu_parameter)


def test_a_state_takes_the_place_of_parameters_without_values() -> None:
    with torch.device("meta"):
        model = nn.Linear(3, 2)
    state = nn.Linear(3, 2).to("tpu").state_dict()
    model.load_state_dict(state, assign=True)
    assert model.weight.device.type == "tpu"
    assert model.weight.data_ptr() == state["weight"].data_ptr()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([1.5, -2.25, float("nan"), float("inf")]),
        torch.arange(3),
        torch.tensor(1.5),
        torch.empty(0, 3),
        torch.tensor([True, False]),
        torch.tensor([1 + 2j]),
        torch.arange(2000.0),
        torch.tensor([0.5, 3.0], dtype=torch.bfloat16),
        torch.arange(6.0).reshape(2, 3).t(),
    ],
)
def test_print_says_the_same_and_the_device(tensor: torch.Tensor) -> None:
    text = repr(tensor.to("tpu"))
    assert "device='tpu:0'" in text
    assert text.replace(", device='tpu:0'", "").split() == repr(tensor).split()
    assert str(tensor.to("tpu")) == text


def test_print_of_what_is_differentiated() -> None:
    x = torch.ones(1, device="tpu", requires_grad=True)
    assert repr(x) == "tensor([1.], device='tpu:0', requires_grad=True)"
    assert repr(x * 2) == "tensor([2.], device='tpu:0', grad_fn=<MulBackward0>)"
    assert f"{x.sum():.2f}" == "1.00"
