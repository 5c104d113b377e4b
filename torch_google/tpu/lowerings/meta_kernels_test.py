# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest
import torch

import torch_google.tpu.lowerings.meta_kernels  # noqa: F401 (registers)
from torch_google.tpu.release import V2_6

aten = torch.ops.aten
STEP: dict[str, Any] = {"maximize": False, "weight_decay": 0.1}
ADAM: dict[str, Any] = {**STEP, "beta1": 0.9, "beta2": 0.9, "eps": 0.1, "amsgrad": False}
SGD: dict[str, Any] = {
    **STEP,
    "momentum": 0.1,
    "dampening": 0.0,
    "nesterov": False,
    "is_first_step": True,
}
ADAGRAD: dict[str, Any] = {**STEP, "lr_decay": 0.1, "eps": 0.1}


def on_meta(*shape: int) -> torch.Tensor:
    return torch.empty(shape, device="meta")


@pytest.mark.parametrize("overload", ["default", "tensor_lr"])
def test_optimizer_steps_have_the_shapes_of_their_state(overload: str) -> None:
    state, step = [on_meta(3, 2)], [on_meta()]
    lr = on_meta() if overload == "tensor_lr" else 0.1
    for name, lists, options in [
        ("_fused_adam", (*[state] * 4, [], step), ADAM),
        ("_fused_adamw", (*[state] * 4, [], step), ADAM),
        ("_fused_sgd", [state] * 3, SGD),
        ("_fused_adagrad", (*[state] * 3, step), ADAGRAD),
    ]:
        if V2_6 and (name, overload) == ("_fused_adagrad", "tensor_lr"):
            continue  # v2.6 accepts only a number
        results = getattr(getattr(aten, name), overload)(*lists, lr=lr, **options)
        assert results[0][0].shape == (3, 2)


@pytest.mark.parametrize("size", [[12], [2, 6], [4, 3]])
def test_a_copied_view_needs_no_strides_of_a_view(size: list[int]) -> None:
    x = torch.ones(3, 4).t()
    copy = aten.view_copy.default(x.to("meta"), size)
    assert copy.stride() == aten.view_copy.default(x, size).stride()


def test_gradients_have_the_shape_of_the_input() -> None:
    x, indices = on_meta(4, 5), torch.empty(4, dtype=torch.int64, device="meta")
    assert aten.multi_margin_loss_backward.default(on_meta(), x, indices, 1, 1).shape == (4, 5)
    args = (on_meta(), x, indices.expand(5, 4), 1, x)
    assert aten.multilabel_margin_loss_backward.default(*args).shape == (4, 5)
    volume, small = on_meta(1, 1, 2, 2, 2), torch.empty(1, 1, 1, 1, 1, dtype=torch.int64).to("meta")
    window = ([2] * 3, [1] * 3)
    out = aten.fractional_max_pool3d_backward.default(small.float(), volume, *window, small)
    assert out.shape == volume.shape


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("size", [(), (3,), (2, 3)])
def test_a_loss_has_the_shape_that_the_cpu_gives_it(size: tuple[int, ...], reduction: int) -> None:
    args = torch.rand(size), torch.zeros(size, dtype=torch.int64)
    loss = aten.multilabel_margin_loss_forward.default
    expected = loss(*args, reduction)
    actual = loss(*(arg.to("meta") for arg in args), reduction)
    assert [t.shape for t in actual] == [t.shape for t in expected]


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize(("size", "targets"), [((), ()), ((5,), ()), ((5,), (1,)), ((2, 5), (2,))])
def test_each_target_has_a_loss(size: Any, targets: Any, reduction: int) -> None:
    args = torch.rand(size), torch.zeros(targets, dtype=torch.int64)
    loss = aten.multi_margin_loss.default
    expected = loss(*args, reduction=reduction)
    actual = loss(*(arg.to("meta") for arg in args), reduction=reduction)
    assert actual.shape == expected.shape


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("name", ["upsample_nearest", "_upsample_nearest_exact"])
def test_a_batch_of_nothing_may_grow(name: str, rank: int) -> None:
    op = getattr(aten, f"{name}{rank}d").default
    assert op(on_meta(0, 2, *[3] * rank), [5] * rank).shape == (0, 2, *[5] * rank)
    assert op(on_meta(4, 2, *[3] * rank), [5] * rank).shape == (4, 2, *[5] * rank)
    with pytest.raises(RuntimeError, match="greater than 0"):
        op(on_meta(0, 2, *[3] * rank), [0] * rank)
