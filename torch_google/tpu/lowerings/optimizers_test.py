# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest
import torch

import torch_google.tpu.lowerings.optimizers  # noqa: F401 (registers)
from torch_google.tpu.lowerings.against_cpu import check
from torch_google.tpu.release import V2_6

aten = torch.ops.aten
CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-6}


def tensors(positive: Any = False) -> Any:
    out = [torch.randn(3, 4), torch.randn(5), torch.randn(())]
    return [t.abs() for t in out] if positive else out


SCALES: list[dict[str, Any]] = [
    {},
    {"grad_scale": torch.tensor(4.0), "found_inf": torch.tensor(0.0)},
    {"grad_scale": torch.tensor(4.0), "found_inf": torch.tensor(1.0)},
]


@pytest.mark.parametrize("name", ["_fused_adam", "_fused_adamw"])
@pytest.mark.parametrize("amsgrad", [True, False])
@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("scale", [0, 1, 2])
def test_adam(name: str, amsgrad: Any, maximize: Any, scale: Any) -> None:
    largest = tensors(positive=True) if amsgrad else []
    state = (tensors(), tensors(), tensors(), tensors(positive=True), largest)
    steps = [torch.tensor(3.0)] * 3
    options: dict[str, Any] = {
        "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-8,
        "amsgrad": amsgrad, "maximize": maximize, **SCALES[scale],
    }  # fmt: skip
    packet = getattr(aten, name)
    check(packet.default, *state, steps, lr=0.01, **options, **CLOSE)
    check(packet.tensor_lr, *state, steps, lr=torch.tensor(0.01), **options, **CLOSE)


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("scale", [0, 1, 2])
def test_sgd(nesterov: Any, first: Any, momentum: Any, scale: Any) -> None:
    buffers = tensors() if momentum else []
    options: dict[str, Any] = {
        "weight_decay": 0.1, "momentum": momentum, "lr": 0.01, "dampening": 0.0,
        "nesterov": nesterov and bool(momentum), "maximize": first, "is_first_step": first,
        **SCALES[scale],
    }  # fmt: skip
    check(aten._fused_sgd.default, tensors(), tensors(), buffers, **options, **CLOSE)


def test_adagrad() -> None:
    options: dict[str, Any] = {
        "lr": 0.01,
        "lr_decay": 0.1,
        "weight_decay": 0.1,
        "eps": 1e-8,
        "maximize": False,
    }
    state = (tensors(), tensors(), tensors(positive=True), [torch.tensor(3.0)] * 3)
    check(aten._fused_adagrad.default, *state, **options, **CLOSE)
    if not V2_6:  # v2.6 does not accept a tensor as the learning rate
        check(
            aten._fused_adagrad.tensor_lr, *state, **options | {"lr": torch.tensor(0.01)}, **CLOSE
        )


@pytest.mark.parametrize("bad", [None, float("inf"), float("nan")])
def test_unscale(bad: Any) -> None:
    grads = [torch.randn(3), torch.randn(2, 2)]
    if bad is not None:
        grads[1][0, 0] = bad
    op = aten._amp_foreach_non_finite_check_and_unscale.default
    check(op, grads, torch.zeros(1), torch.tensor([0.5]))


@pytest.mark.parametrize("found_inf", [0.0, 1.0])
@pytest.mark.parametrize("tracker", [0, 4])
@pytest.mark.parametrize("scale", [8.0, 3e38])
def test_update_scale(found_inf: Any, tracker: Any, scale: Any) -> None:
    args = (
        torch.tensor([scale]),
        torch.tensor([tracker], dtype=torch.int32),
        torch.tensor([found_inf]),
    )
    check(aten._amp_update_scale.default, *args, 2.0, 0.5, 5)
