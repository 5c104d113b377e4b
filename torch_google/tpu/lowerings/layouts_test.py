# SPDX-License-Identifier: Apache-2.0

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch._ops import OpOverload

from torch_google.tpu.lowerings.layouts import laid_out

aten = torch.ops.aten
LAST = torch.channels_last
# Contiguous and channels-last tensors, for images and for volumes. All values are between 0 and 1,
# as binary cross entropy requires.
FIRST = torch.rand(2, 4, 6, 6, generator=torch.Generator().manual_seed(0))
X = FIRST.to(memory_format=LAST)
VOLUME = torch.rand(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d)
PAIRS = torch.randint(0, 2, (4, 3, 5), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("op", "args"),
    [
        (aten._linalg_svd.default, (torch.randn(2, 3, 5), True)),
        (aten._linalg_svd.default, (torch.randn(5, 3),)),
        (aten.geqrf.default, (torch.randn(2, 5, 3),)),
        (aten.linalg_eig.default, (torch.randn(2, 4, 4),)),
        (aten.linalg_lstsq.default, (torch.randn(2, 5, 3), torch.randn(2, 5, 2))),
        (aten.linalg_lstsq.default, (torch.randn(3, 5), torch.randn(3, 2))),
        (aten.linalg_lstsq.default, (torch.randn(2, 5, 3), torch.randn(2, 5))),
        *[
            (aten._fft_r2c.default, (torch.randn(2, 3, 4, 5), dims, 0, True))
            for dims in ([0, 1], [1, 0], [0, 3], [3, 1, 0])
        ],
        (aten._fft_r2c.default, (torch.randn(4, 5).t(), [0, 1], 0, True)),
        (aten._fft_c2r.default, (torch.randn(2, 3, 4, 5).cfloat(), [0, 1], 0, 4)),
        (aten._fft_c2r.default, (torch.randn(2, 3, 4).cfloat().permute(1, 2, 0), [2, 0], 0, 4)),
        (aten._fft_c2c.default, (torch.randn(2, 3, 4, 5).cfloat(), [1, 0], 0, True)),
        (aten._fft_c2c.default, (torch.randn(2, 3, 4).cfloat().permute(2, 0, 1), [0], 0, True)),
        (aten.nonzero.default, (torch.eye(4),)),
        (aten.nonzero_static.default, (torch.eye(4),)),
        (aten.unique_dim.default, (PAIRS, 1)),
        (aten.unique_dim.default, (PAIRS, -1)),
        (aten.unique_dim_consecutive.default, (PAIRS, 2)),
        (aten.unique_consecutive.default, (PAIRS, False, False, 1)),
        (aten.unique_consecutive.default, (PAIRS,)),
        *[
            (op.default, args)
            for grad in (X, FIRST)
            for x in (X, FIRST)
            for op, args in (
                (aten._log_softmax_backward_data, (grad, x, 1, torch.float32)),
                (aten.binary_cross_entropy, (x, grad, None, 0)),
                (aten.binary_cross_entropy_backward, (grad, x, FIRST, None, 0)),
                (aten.elu_backward, (grad, 1, 1, 1, False, x)),
                (aten.glu_backward, (grad[:, :2], x, 1)),
                (aten.hardsigmoid_backward, (grad, x)),
                (aten.hardswish_backward, (grad, x)),
                (aten.hardtanh_backward, (grad, x, 0.2, 0.8)),
                (aten.huber_loss_backward, (grad, x, FIRST, 0, 1.0)),
                (aten.mse_loss_backward, (grad, x, FIRST, 0)),
                (aten.smooth_l1_loss_backward, (grad, x, FIRST, 0, 1.0)),
                (aten.softplus_backward, (grad, x, 1, 20)),
            )
        ],
        *[
            (op.default, (*args, [1, 1] * rank))
            for rank, x in ((2, X), (2, FIRST), (2, X[0]), (3, VOLUME), (3, X), (3, VOLUME[0]))
            for kind in ("reflection", "replication")
            for op, args in (
                (getattr(aten, f"{kind}_pad{rank}d"), (x,)),
                (
                    getattr(aten, f"{kind}_pad{rank}d_backward"),
                    (torch.nn.functional.pad(x, [1, 1] * rank), x),
                ),
            )
        ],
        *[
            (op, args)
            for x in (X, FIRST.permute(2, 0, 3, 1), FIRST.permute(2, 0, 3, 1)[..., ::2])
            for op, args in (
                (aten.binary_cross_entropy.default, (x, x, None, 0)),
                (aten.binary_cross_entropy_backward.default, (x, x, x, None, 0)),
                (aten.index_fill.int_Scalar, (x, 0, torch.tensor([1]), 2)),
                (aten.isin.Tensor_Scalar, (x, 1)),
                (aten.isin.Tensor_Tensor, (x, torch.tensor([0.5, 1]))),
                (aten.pow.Scalar, (2, x)),
            )
        ],
        *[
            (op, (x, y))
            for x, y in (
                (X, FIRST),
                (FIRST.permute(2, 0, 3, 1), torch.rand(6, 1, 1, 4)),
                (FIRST[:, :1, :, 0].movedim(0, -1), FIRST[0, 0, :, :2]),
            )
            for op in (
                aten.copysign.Tensor,
                aten.floor_divide.default,
                aten.heaviside.default,
                aten.ldexp.Tensor,
                aten.logaddexp.default,
                aten.logical_and.default,
                aten.xlogy.Tensor,
                aten.special_xlog1py.default,
            )
        ],
        (aten.native_dropout_backward.default, (FIRST.transpose(2, 3), X > 0, 1.0)),
        *[
            (op, (x, *args, 0.1, 1e-5))
            for x in (
                X,
                FIRST.transpose(0, 1).contiguous().transpose(0, 1),
                VOLUME,
                FIRST[0, 0].t(),
            )
            for weights in ([torch.ones(x.shape[1])] * 2,)
            for op, args in (
                (aten.native_batch_norm.default, (*weights, *weights, False)),
                (aten._native_batch_norm_legit_no_training.default, (*weights, *weights)),
                (aten._native_batch_norm_legit.no_stats, (*weights, True)),
                (aten._native_batch_norm_legit_functional.default, (*weights, *weights, True)),
                (aten._batch_norm_no_update.default, (*weights, *weights)),
                (aten._batch_norm_with_update_functional.default, (*weights, *weights)),
            )
        ],
        (aten.log_sigmoid_forward.default, (X,)),
        (
            aten.multi_margin_loss_backward.default,
            (torch.ones(()), FIRST[0, 0].t(), torch.arange(6) % 2, 1, 1),
        ),
        (
            aten.multilabel_margin_loss_backward.default,
            (
                torch.ones(()),
                FIRST[0, 0].t(),
                torch.zeros(6, 6, dtype=torch.int64),
                1,
                torch.ones(6, 6),
            ),
        ),
        (
            aten.fractional_max_pool3d_backward.default,
            (
                torch.ones(2, 3, 1, 1, 1),
                VOLUME,
                [2] * 3,
                [1] * 3,
                torch.zeros(2, 3, 1, 1, 1).long(),
            ),
        ),
        (aten.native_channel_shuffle.default, (X, 2)),
    ],
    ids=lambda value: value.name() if isinstance(value, torch._ops.OpOverload) else "",
)
def test_strides_of_the_cpu(op: Any, args: Sequence[Any]) -> None:
    options = {"size": 4} if op is aten.nonzero_static.default else {}
    expected = op(*args, **options)
    expected = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    shapes = [torch.empty(t.shape, dtype=t.dtype, device="meta") for t in expected]
    actual = laid_out(op.name(), shapes, args, options)
    assert [t.stride() for t in actual if t.numel()] == [t.stride() for t in expected if t.numel()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("op", "numbers"),
    [
        *[(op, ()) for op in (aten.add.Tensor, aten.eq.Tensor, aten.ldexp.Tensor)],
        *[(op, ()) for op in (aten.atan2.default, aten.maximum.default, aten.pow.Tensor_Tensor)],
        *[(op, ()) for op in (aten.silu_backward.default, aten.tanh_backward.default)],
        (aten.gelu_backward.default, ()),
        (aten.logit_backward.default, ()),
        (aten.threshold_backward.default, (0.1,)),
    ],
)
def test_result_strides_with_an_expanded_operand(
    op: OpOverload, numbers: tuple[float, ...], dtype: torch.dtype
) -> None:
    def strides(device: str) -> list[tuple[int, ...]]:
        dense = torch.full((2, 5, 3, 8), 0.25, dtype=dtype, device=device).transpose(1, 2)
        expanded = torch.full((), 0.5, dtype=dtype, device=device).expand(dense.shape)
        return [op(x, y, *numbers).stride() for x, y in ((expanded, dense), (dense, expanded))]

    assert strides("tpu") == strides("cpu")


@pytest.mark.parametrize("mode", ["floor", "trunc"])
@pytest.mark.parametrize("other", [torch.rand(4, 6), 0.5], ids=["tensor", "number"])
def test_a_rounded_quotient_has_the_strides_of_its_operands(mode: str, other: Any) -> None:
    x = FIRST.permute(2, 0, 1, 3)[0].permute(2, 1, 0)[..., :1]
    y = other.t()[..., None] if isinstance(other, torch.Tensor) else other
    expected = torch.div(x, y, rounding_mode=mode)
    actual = torch.div(x.tpu(), y.tpu() if isinstance(y, torch.Tensor) else y, rounding_mode=mode)
    assert actual.stride() == expected.stride()


def test_positions_of_nonzeros_have_the_strides_of_the_cpu_without_rows() -> None:
    nothing = torch.zeros(2, 3)
    expected, actual = nothing.nonzero(), nothing.tpu().nonzero()
    assert actual.stride() == expected.stride()
    assert actual[..., -1].storage_offset() == expected[..., -1].storage_offset() == 0


def test_draws_around_given_means_are_contiguous() -> None:
    mean = X.abs()
    for args in ((mean, mean), (mean, 1.0), (1.0, mean)):
        expected = torch.normal(*args)
        actual = torch.normal(*(a.tpu() if isinstance(a, torch.Tensor) else a for a in args))
        assert actual.stride() == expected.stride()


@pytest.mark.parametrize("training", [False, True])
def test_a_randomized_relu_is_contiguous(training: bool) -> None:
    x = FIRST.permute(2, 0, 3, 1)
    expected = torch.rrelu(x, training=training)
    assert torch.rrelu(x.tpu(), training=training).stride() == expected.stride()


@pytest.mark.parametrize("memory", [LAST, torch.contiguous_format])
def test_unpooling_keeps_the_format_of_its_input(memory: torch.memory_format) -> None:
    x = torch.randn(2, 3, 6, 6).contiguous(memory_format=memory)
    out, places = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
    expected = aten.max_unpool2d.default(out, places, [6, 6])
    shape = torch.empty(expected.shape, device="meta")
    actual = laid_out("aten::max_unpool2d", shape, (out, places, [6, 6]), {})
    assert actual.stride() == expected.stride()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("which", ["input", "weight", "neither"])
@pytest.mark.parametrize(("batch", "groups"), [(2, 1), (1, 1), (1, 3)])
def test_convolutions(
    dtype: torch.dtype, rank: int, transposed: bool, which: str, batch: int, groups: int
) -> None:
    x, weight = (
        torch.ones(batch, 3, *[5] * rank, dtype=dtype),
        torch.ones(3, 3 // groups, *[3] * rank, dtype=dtype),
    )
    x = x.movedim(1, -1).contiguous().movedim(-1, 1) if which == "input" else x
    weight = weight.movedim(1, -1).contiguous().movedim(-1, 1) if which == "weight" else weight
    args = (x, weight, None, [1] * rank, [1] * rank, [1] * rank, transposed, [0] * rank, groups)
    expected = aten.convolution.default(*args)
    actual = laid_out("aten::convolution", torch.empty(expected.shape, device="meta"), args, {})
    assert _strides(actual) == _strides(expected)

    shape = ([3], *args[3:])
    grads = aten.convolution_backward.default(expected, x, weight, *shape, [True] * 3)
    metas = [torch.empty(grad.shape, device="meta") for grad in grads]
    arguments = (expected, x, weight, *shape, [True] * 3)
    laid = laid_out("aten::convolution_backward", metas, arguments, {})
    assert [_strides(grad) for grad in laid] == [_strides(grad) for grad in grads]


def _strides(tensor: torch.Tensor) -> list[int]:
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


def test_of_a_convolution_the_gradients_that_are_asked_for() -> None:
    x, weight = torch.ones(2, 3, 5, 5).to(memory_format=LAST), torch.ones(3, 3, 3, 3)
    arguments = (torch.ones(2, 3, 5, 5), x, weight, None, *[[1, 1]] * 3, False, [0, 0], 1)
    metas = [None, torch.empty(weight.shape, device="meta"), None]
    first, second, third = laid_out(
        "aten::convolution_backward", metas, (*arguments, [False, True, False]), {}
    )
    assert first is None
    assert third is None
    assert second.is_contiguous(memory_format=LAST)


def test_other_operators_are_left_alone() -> None:
    meta = torch.empty(3, 2, device="meta").t()
    assert laid_out("aten::add.Tensor", meta, (), {}) is meta
