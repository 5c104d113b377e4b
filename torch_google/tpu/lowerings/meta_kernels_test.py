# SPDX-License-Identifier: Apache-2.0

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses import FakeTensorMode
from torch.utils import _pytree as pytree

from torch_google.tpu.lowerings import meta_kernels
from torch_google.tpu.release import V2_6, has_operator

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


def test_kernels_that_torch_registers_too_are_overridden() -> None:
    # Which kernels torch itself registers from Python depends on its release. Some releases reject
    # a second kernel for an operator; in others, the Python dispatcher prefers the first kernel.
    # `override` handles both.
    registered = sorted(meta_kernels._META._op_impls)
    assert len(registered) > 40
    for key in registered:
        packet, _, overload = key.split("/")[1].partition(".")
        operator = getattr(getattr(aten, packet), overload or "default")
        assert torch._C.DispatchKey.Meta not in operator.py_kernels, key


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
            continue  # this overload of v2.6 accepts only a number
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


def _attention_grads(kind: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    q, k = kind(torch.rand(2, 4, 8, 16)), kind(torch.rand(2, 2, 8, 16))
    seed, lse = kind(torch.zeros((), dtype=torch.int64)), kind(torch.zeros(2, 4, 32))
    op = aten._scaled_dot_product_efficient_attention_backward.default
    needed = [True, True, True, False]
    return op(q, q, k, k, None, q, lse, seed, seed, 0.0, needed)[:3]


# Calls that torch's own meta kernels reject, or for which they return wrong metadata.
_CALLS: dict[str, Callable[[Callable[[torch.Tensor], torch.Tensor]], Any]] = {
    "bmm": lambda kind: aten.bmm.default(
        kind(torch.ones(2, 0, 3)), kind(torch.ones(2, 3, 0, dtype=torch.int64))
    ),
    "view_copy": lambda kind: aten.view_copy.default(kind(torch.ones(3, 4).t()), [2, 6]),
    "nll_loss": lambda kind: aten.nll_loss_forward.default(
        kind(torch.ones(3, 4)), kind(torch.ones(3, dtype=torch.uint8)), None, 1, -100
    ),
}


@pytest.mark.parametrize("name", _CALLS)
def test_graphs_are_traced_with_these_kernels(name: str) -> None:
    expected = pytree.tree_leaves(_CALLS[name](lambda x: x))
    with FakeTensorMode() as mode, enable_python_dispatcher():
        actual = pytree.tree_leaves(_CALLS[name](mode.from_tensor))
    assert [(t.shape, t.dtype, t.stride()) for t in actual] == [
        (t.shape, t.dtype, t.stride()) for t in expected
    ]


def test_gradients_of_shared_heads_have_the_shapes_of_their_inputs() -> None:
    with FakeTensorMode() as mode, enable_python_dispatcher():
        grads = _attention_grads(mode.from_tensor)
    assert [grad.shape for grad in grads] == [(2, 4, 8, 16), (2, 2, 8, 16), (2, 2, 8, 16)]


_OFFSETS = torch.tensor([2, 8], dtype=torch.int32)
_ROWS, _MATRICES = torch.ones(8, 4), torch.ones(2, 4, 8)


@pytest.mark.skipif(V2_6, reason="v2.6 has no grouped products")
@pytest.mark.parametrize(
    "arguments",
    [
        (_ROWS, _MATRICES, _OFFSETS),
        (_ROWS.half(), torch.ones(2, 8, 16).half()[:, :4], _OFFSETS),
        (_ROWS, torch.ones(2, 5, 4).mT, _OFFSETS),
        (_MATRICES, torch.ones(8, 8), _OFFSETS),
        (torch.ones(4, 8), torch.ones(8, 12), _OFFSETS),
        (torch.ones(2, 4, 8), torch.ones(2, 8, 4)),
        (_ROWS, _MATRICES, _OFFSETS, None, torch.float32),
        # The CPU rejects the following calls.
        (_ROWS, _MATRICES),
        (_ROWS, _MATRICES, _OFFSETS.long()),
        (_ROWS, _MATRICES, _OFFSETS[None]),
        (_ROWS, _MATRICES, _OFFSETS, torch.ones(2, 8)),
        (_ROWS, _MATRICES, _OFFSETS, None, torch.float64),
        (_ROWS.double(), _MATRICES.double(), _OFFSETS),
        (_ROWS.bfloat16(), _MATRICES, _OFFSETS),
        (torch.ones(8, 5), torch.ones(2, 5, 8), _OFFSETS),
        (torch.ones(8, 8)[:, ::2], _MATRICES, _OFFSETS),
        (_ROWS, torch.ones(3, 4, 8), _OFFSETS),
        (_ROWS, torch.ones(2, 8, 8), _OFFSETS),
        (torch.ones(4), _MATRICES, _OFFSETS),
    ],
)
def test_grouped_products_are_accepted_and_laid_out_as_on_the_cpu(arguments: Any) -> None:
    def described(device: str) -> Any:
        # Tensor.to("meta") would not preserve the strides.
        placed = [
            torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device).fill_(2)
            if isinstance(x, torch.Tensor)
            else x
            for x in arguments
        ]
        try:
            result = aten._grouped_mm.default(*placed)
        except RuntimeError as error:
            return type(error)
        return result.shape, result.stride(), result.dtype

    assert described("meta") == described("cpu")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": (3, 16, 1)}, "expected two matrices, got 3 and 2 dimensions"),
        ({"a": (3, 8)}, r"cannot be multiplied, got \(3, 8\) and \(16, 5\)"),
        ({"dtype": torch.int8}, "expected two matrices of float8, got torch.int8, torch.int8"),
        ({"scale_a": (5, 1)}, r"of shape \(3, 1\) and \(1, 5\), got \(5, 1\) and \(1, 5\)"),
        ({"scale_dtype": torch.float64}, "scales of float32, got torch.float64 and torch.float64"),
    ],
)
def test_scaled_products_that_the_cpu_rejects(change: dict[str, Any], message: str) -> None:
    assert _scaled_product(out_dtype=torch.float32).dtype == torch.float32
    assert _scaled_product().shape == (3, 5)
    with pytest.raises(RuntimeError, match=message):
        _scaled_product(**change)


def _scaled_product(
    *,
    a: tuple[int, ...] = (3, 16),
    scale_a: tuple[int, ...] = (3, 1),
    dtype: torch.dtype = torch.float8_e4m3fn,
    scale_dtype: torch.dtype = torch.float32,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Return the result of a product for meta tensors. Its sizes are no multiples of 16."""
    operands = [on_meta(*shape).to(dtype) for shape in (a, (16, 5))]
    scales = [on_meta(*shape).to(scale_dtype) for shape in (scale_a, (1, 5))]
    result: torch.Tensor = aten._scaled_mm.default(*operands, *scales, out_dtype=out_dtype)
    return result


@pytest.mark.skipif(not has_operator("aten::_scaled_mm_v2"), reason="torch v2.6 lacks it")
def test_a_scaled_product_has_one_tensor_of_scales_for_each_operand() -> None:
    a, b = (on_meta(*shape).to(torch.float8_e5m2) for shape in ((3, 16), (16, 5)))
    scale, recipes = on_meta(1), ([0], [0])
    product = aten._scaled_mm_v2.default
    assert product(a, b, [scale], *recipes, [scale], *recipes, None, None).shape == (3, 5)
    with pytest.raises(RuntimeError, match="one tensor of scales for each operand, got 2 and 1"):
        product(a, b, [scale] * 2, *recipes, [scale], *recipes, None, None)
