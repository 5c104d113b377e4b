# SPDX-License-Identifier: Apache-2.0
"""Computes the strides that results have on the CPU.

The rules are for operators whose meta kernels describe a different device, and for operators whose
result shapes depend on values, because torch has no meta kernels for these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch._prims_common import suggest_memory_format


def _volumes() -> tuple[torch.dtype, ...]:
    """Return the dtypes for which oneDNN supports 3D convolutions on this processor."""
    if not torch.backends.mkldnn.is_available():
        return ()
    dtypes = [torch.float32]
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():  # oneDNN needs AVX-512 or similar for bfloat16
        dtypes.append(torch.bfloat16)
    if torch.ops.mkldnn._is_mkldnn_fp16_supported():
        dtypes.append(torch.float16)
    return tuple(dtypes)


_VOLUMES = _volumes()

_LayoutRule = Callable[
    [Sequence[torch.Tensor], Sequence[Any], Mapping[str, Any]], list[torch.Tensor]
]


def laid_out(name: str, metas: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return meta tensors for the results of the operator `name`, with the CPU's strides.

    `metas` is one meta tensor or a sequence of them, with the correct shapes and dtypes.
    """
    rule = _RULES.get(name)
    if rule is None:
        if not (_have_half_dtype(args) and _is_pointwise(name)):
            return metas
        rule = _elementwise
    if isinstance(metas, torch.Tensor):
        return rule([metas], args, kwargs)[0]
    return rule(metas, args, kwargs)


def _have_half_dtype(args: Sequence[Any]) -> bool:
    """Return whether there are several operands with dimensions, all float16 or all bfloat16.

    Meta kernels of pointwise operators convert them to float32 first, so an expanded operand
    becomes contiguous and loses its strides of 0.
    """
    dtypes = [x.dtype for x in args if isinstance(x, torch.Tensor) and x.ndim]
    halves = (torch.float16, torch.bfloat16)
    return len(dtypes) > 1 and dtypes[0] in halves and len(set(dtypes)) == 1


@cache
def _is_pointwise(name: str) -> bool:
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    operators = getattr(getattr(torch.ops, namespace), packet, None)
    return torch.Tag.pointwise in getattr(
        getattr(operators, overload or "default", None), "tags", ()
    )


def in_convolution_format(
    result: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, groups: int
) -> torch.Tensor:
    """Return a convolution's result, or an operand's gradient, with the strides it has on the CPU.

    The result is channels last if the input or the weight is. In 3D, only oneDNN returns this
    format; torch's own kernels return contiguous tensors. In 1D, torch makes the input contiguous
    and computes a 2D convolution.
    """
    if result.ndim != x.ndim:
        return result
    if x.ndim == 3:
        layout = suggest_memory_format(weight.unsqueeze(2))
        return result.unsqueeze(2).contiguous(memory_format=layout).squeeze(2)
    formats = [suggest_memory_format(operand) for operand in (x, weight)]
    last = next((f for f in formats if f != torch.contiguous_format), torch.contiguous_format)
    if last == torch.channels_last_3d and not _runs_in_onednn(x, weight, groups):
        last = torch.contiguous_format
    return result.contiguous(memory_format=last)


def _runs_in_onednn(x: torch.Tensor, weight: torch.Tensor, groups: int) -> bool:
    """Return whether torch uses oneDNN for this 3D convolution on the CPU."""
    if x.dtype is not torch.float32:
        return x.dtype in _VOLUMES
    large = min(weight.shape[-2:]) > 3 or math.prod(x.shape[:4]) > 20480
    return bool(_VOLUMES) and (groups > 1 or x.shape[0] > 1 or large)


def _columns(*which: int) -> _LayoutRule:
    """Return a rule that makes the results at these positions column-major, as LAPACK does."""

    def rule(metas: Sequence[torch.Tensor], args: Any, kwargs: Any) -> list[torch.Tensor]:
        return [
            _ordered(meta, [*range(meta.ndim - 2), meta.ndim - 1, meta.ndim - 2])
            if position in which and meta.ndim >= 2
            else meta
            for position, meta in enumerate(metas)
        ]

    return rule


def _solution(
    metas: Sequence[torch.Tensor], args: Sequence[Any], kwargs: Any
) -> list[torch.Tensor]:
    """Lay out the solution as LAPACK does.

    LAPACK writes it to a buffer whose columns are as long as the longer side of the matrix.
    """
    a, solution = args[0], metas[0]
    rows, vector = max(a.shape[-2:]), solution.ndim == a.ndim - 1
    lead, columns = (
        (solution.shape[:-1], 1) if vector else (solution.shape[:-2], solution.shape[-1])
    )
    padded = solution.new_empty((*lead, columns, rows)).mT[..., : a.shape[-1], :]
    return [padded.squeeze(-1) if vector else padded, *metas[1:]]


def _places(metas: Sequence[torch.Tensor], args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Lay out the result, which has a row per nonzero element, as a transposed tensor.

    The second stride is the number of rows, even if that is 0.
    """
    places = metas[0]
    return [places.new_empty_strided(places.shape, (1, places.shape[0]), device="meta")]


def _along(position: int) -> _LayoutRule:
    """Return a rule that makes `dim` the outermost dimension in memory."""

    def rule(
        metas: Sequence[torch.Tensor], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[torch.Tensor]:
        slices = metas[0]
        dim = kwargs.get("dim", args[position] if len(args) > position else None)
        if dim is None or not slices.ndim:
            return list(metas)
        rest = [d for d in range(slices.ndim) if d != dim % slices.ndim]
        return [_ordered(slices, [dim % slices.ndim, *rest]), *metas[1:]]

    return rule


def _as_argument(position: int) -> _LayoutRule:
    """Return a rule that applies an argument's memory format to results of the same rank."""

    def rule(metas: Sequence[Any], args: Sequence[Any], kwargs: Any) -> list[Any]:
        x = args[position]
        return _in_format(metas, suggest_memory_format(x), x.ndim)

    return rule


def _like(position: int) -> _LayoutRule:
    """Return a rule that applies the strides of `empty_like(argument)` to the result."""

    def rule(metas: Sequence[torch.Tensor], args: Sequence[Any], kwargs: Any) -> list[torch.Tensor]:
        x = args[position]
        if metas[0].shape != x.shape:
            return list(metas)
        return [torch.empty_like(x, dtype=metas[0].dtype, device="meta"), *metas[1:]]

    return rule


def _as_operands(metas: Sequence[torch.Tensor], args: Sequence[Any], kwargs: Any) -> list[Any]:
    return [in_convolution_format(metas[0], args[0], args[1], args[8])]


def _as_operands_grads(metas: Sequence[Any], args: Sequence[Any], kwargs: Any) -> list[Any]:
    x, weight, groups = args[1], args[2], args[-2]
    return [
        None if meta is None else in_convolution_format(meta, x, weight, groups) for meta in metas
    ]


def _in_format(metas: Sequence[Any], layout: torch.memory_format, rank: int) -> list[Any]:
    """Convert the tensors with this rank to a memory format. Results that are None stay None."""
    return [
        meta if meta is None or meta.ndim != rank else meta.contiguous(memory_format=layout)
        for meta in metas
    ]


def _attention(metas: Sequence[torch.Tensor], args: Sequence[Any], kwargs: Any) -> list[Any]:
    """Apply the query's strides, or make the output contiguous if the CPU uses no fused kernel."""
    query, value = args[0], args[2]
    if _have_rows(args[:3]) and query.shape[-1] == value.shape[-1]:
        return [torch.empty_like(query, device="meta"), *metas[1:]]
    return [metas[0].contiguous(), *metas[1:]]


def _attention_grads(metas: Sequence[torch.Tensor], args: Sequence[Any], kwargs: Any) -> list[Any]:
    """Return gradients shaped like query, key and value, which may differ in their head counts."""
    output_mask, bias = args[10], args[4]
    order = [0, 2, 1, 3] if _have_rows(args[1:4]) else [0, 1, 2, 3]
    grads: list[torch.Tensor | None] = [
        _ordered(x, order) if needed else None
        for x, needed in zip(args[1:4], output_mask, strict=False)
    ]
    learned = output_mask[3] and bias is not None and bias.dtype != torch.bool
    return [*grads, torch.empty_like(bias, device="meta") if learned else None]


def _have_rows(operands: Sequence[torch.Tensor]) -> bool:
    return all(x.stride(-1) == 1 for x in operands)


def _real_to_complex(
    metas: Sequence[torch.Tensor], args: Sequence[Any], kwargs: Any
) -> list[torch.Tensor]:
    """Apply the CPU's layout: the last transformed dimension, which is halved, is innermost."""
    source, (*dims, last) = args[:2]
    return [_transformed(metas[0], source, [*_by_stride(source, dims), last % source.ndim])]


def _complex_to_complex(
    metas: Sequence[torch.Tensor], args: Sequence[Any], kwargs: Any
) -> list[torch.Tensor]:
    source, dims = args[:2]
    return [_transformed(metas[0], source, _by_stride(source, dims))] if dims else [metas[0]]


def _complex_to_real(
    metas: Sequence[torch.Tensor], args: Sequence[Any], kwargs: Any
) -> list[torch.Tensor]:
    """Apply the CPU's layout: the last dimension is transformed in a separate, final step."""
    source, (*dims, last) = args[:2]
    if dims:
        source = _transformed(source.new_empty(source.shape), source, _by_stride(source, dims))
    return [_transformed(metas[0], source, [last % source.ndim])]


def _transformed(meta: torch.Tensor, source: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    """Return `meta` with MKL's strides, in which untransformed dimensions are outermost.

    If MKL is not linked, pocketfft returns contiguous results.
    """
    if not torch.backends.mkl.is_available():
        return meta.contiguous()
    rest = [d for d in range(source.ndim) if d not in dims]
    return _ordered(meta, [*_by_stride(source, rest), *dims])


def _by_stride(source: torch.Tensor, dims: Sequence[int]) -> list[int]:
    """Return the dimensions, sorted by decreasing stride."""
    return sorted((d % source.ndim for d in dims), key=lambda d: -source.stride(d))


def _of_batch_norm(metas: Sequence[torch.Tensor], args: Sequence[Any], kwargs: Any) -> list[Any]:
    """Apply the input's memory format to the gradients. Those that are not requested are None."""
    grads = _as_argument(1)(metas, args, kwargs)
    return [grad if asked else None for grad, asked in zip(grads, args[9], strict=True)]


def _elementwise(metas: Sequence[torch.Tensor], args: Sequence[Any], kwargs: Any) -> list[Any]:
    """Combine the strides of all operands. torch's decompositions combine them incorrectly.

    The CPU treats a Python scalar among the first two arguments as a zero-dimensional tensor. That
    affects the strides of dimensions of size 1, which determine the layout of later results.
    """
    operands = [
        torch.empty_strided(x.shape, x.stride(), device="meta")
        for x in args
        if isinstance(x, torch.Tensor)
    ]
    if len(operands) == 1 and any(not isinstance(x, torch.Tensor) for x in args[:2]):
        operands.append(torch.empty((), device="meta"))
    combined = _COMBINE[len(operands)](*operands)
    return [metas[0].new_empty_strided(combined.shape, combined.stride()), *metas[1:]]


def _unary(metas: Sequence[torch.Tensor], args: Sequence[Any], kwargs: Any) -> list[Any]:
    """Use only the first operand's strides: the other arguments are options of the kernel."""
    return _elementwise(metas, args[:1], kwargs)


def _with_number(metas: Sequence[torch.Tensor], args: Sequence[Any], kwargs: Any) -> list[Any]:
    """Apply the CPU's strides to `x + number`, because torch's meta kernel ignores the number."""
    if all(isinstance(x, torch.Tensor) for x in args[:2]):
        return _elementwise(metas, args, kwargs) if _have_half_dtype(args) else [*metas]
    return _elementwise(metas, args, kwargs)


def _ldexp(metas: Sequence[torch.Tensor], args: Sequence[Any], kwargs: Any) -> list[Any]:
    """Combine the strides of x and 2**exponent, which is contiguous except in half precision."""
    x, exponent = args
    return _elementwise(
        metas, [x, exponent if _have_half_dtype(args) else exponent.contiguous()], kwargs
    )


def _plain(metas: Sequence[torch.Tensor], args: Any, kwargs: Any) -> list[torch.Tensor]:
    return [meta.contiguous() for meta in metas]


def _ordered(meta: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    """Return a new meta tensor whose dimensions have this memory order, outermost first."""
    shape = [meta.shape[d] for d in order]
    return meta.new_empty(shape, device="meta").permute(
        sorted(range(len(order)), key=order.__getitem__)
    )


# Maps the number of operands to an operator whose meta kernel computes the same strides as the CPU.
_COMBINE: dict[int, Callable[..., torch.Tensor]] = {
    1: torch.neg,
    2: torch.add,
    3: torch.addcmul,
}

# Operators with an argument that may be a Python scalar.
_BINARY = (
    *("add", "sub", "rsub", "mul", "div", "true_divide", "remainder", "fmod"),
    *("eq", "ne", "lt", "le", "gt", "ge"),
    *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"),
    *("__and__", "__or__", "__xor__", "__lshift__", "__rshift__"),
)

_RULES: dict[str, _LayoutRule] = {
    **{
        f"aten::{name}.{overload}": _with_number
        for name in _BINARY
        for overload in ("Scalar", "Tensor", "Tensor_Scalar")
    },
    "aten::_batch_norm_no_update": _as_argument(0),
    "aten::_batch_norm_with_update_functional": _as_argument(0),
    "aten::_fft_c2c": _complex_to_complex,
    "aten::_fft_c2r": _complex_to_real,
    "aten::_fft_r2c": _real_to_complex,
    "aten::_linalg_svd": _columns(0, 2),
    "aten::_log_softmax_backward_data": _plain,
    "aten::_native_batch_norm_legit.no_stats": _as_argument(0),
    "aten::_native_batch_norm_legit_functional": _as_argument(0),
    "aten::_native_batch_norm_legit_no_training": _as_argument(0),
    "aten::_scaled_dot_product_efficient_attention": _attention,
    "aten::_scaled_dot_product_efficient_attention_backward": _attention_grads,
    "aten::batch_norm_backward": _of_batch_norm,
    "aten::binary_cross_entropy": _like(0),
    "aten::binary_cross_entropy_backward": _like(1),
    "aten::channel_shuffle": _as_argument(0),
    "aten::clamp": _unary,
    "aten::clamp_max": _unary,
    "aten::clamp_min": _unary,
    "aten::convolution": _as_operands,
    "aten::convolution_backward": _as_operands_grads,
    "aten::convolution_backward_overrideable": _as_operands_grads,
    "aten::convolution_overrideable": _as_operands,
    "aten::copysign.Scalar": _elementwise,
    "aten::copysign.Tensor": _elementwise,
    "aten::div.Scalar_mode": _elementwise,
    "aten::div.Tensor_mode": _elementwise,
    "aten::elu_backward": _elementwise,
    "aten::floor_divide": _elementwise,
    "aten::floor_divide.Scalar": _elementwise,
    "aten::fractional_max_pool3d_backward": _plain,
    "aten::geqrf": _columns(0),
    "aten::glu_backward": _plain,
    "aten::hardsigmoid_backward": _elementwise,
    "aten::hardswish_backward": _elementwise,
    "aten::hardtanh_backward": _elementwise,
    "aten::heaviside": _elementwise,
    "aten::huber_loss_backward": _plain,
    "aten::index_fill.int_Scalar": _like(0),
    "aten::index_fill.int_Tensor": _like(0),
    "aten::isin.Tensor_Scalar": _plain,
    "aten::isin.Tensor_Tensor": _plain,
    "aten::ldexp.Tensor": _ldexp,
    "aten::linalg_eig": _columns(1),
    "aten::linalg_lstsq": _solution,
    "aten::log_sigmoid_forward": _plain,
    "aten::logaddexp": _elementwise,
    "aten::logaddexp2": _elementwise,
    "aten::logical_and": _elementwise,
    "aten::logical_or": _elementwise,
    "aten::logical_xor": _elementwise,
    "aten::logit_backward": _elementwise,
    "aten::max_unpool2d": _as_argument(0),
    "aten::mse_loss_backward": _plain,
    "aten::multi_margin_loss_backward": _plain,
    "aten::multilabel_margin_loss_backward": _plain,
    "aten::native_batch_norm": _as_argument(0),
    "aten::native_batch_norm_backward": _of_batch_norm,
    "aten::native_channel_shuffle": _as_argument(0),
    "aten::native_dropout_backward": _elementwise,
    "aten::nll_loss2d_forward": _plain,
    "aten::nonzero": _places,
    "aten::nonzero_static": _plain,
    "aten::normal.Tensor_Tensor": _plain,
    "aten::normal.Tensor_float": _plain,
    "aten::normal.float_Tensor": _plain,
    "aten::pow.Scalar": _plain,
    "aten::reflection_pad2d": _as_argument(0),
    "aten::reflection_pad2d_backward": _as_argument(1),
    "aten::reflection_pad3d": _as_argument(0),
    "aten::reflection_pad3d_backward": _as_argument(1),
    "aten::relu": _unary,
    "aten::replication_pad2d": _as_argument(0),
    "aten::replication_pad2d_backward": _as_argument(1),
    "aten::replication_pad3d": _as_argument(0),
    "aten::replication_pad3d_backward": _as_argument(1),
    "aten::rrelu_with_noise_functional": _plain,
    "aten::smooth_l1_loss_backward": _plain,
    "aten::softplus_backward": _elementwise,
    "aten::special_xlog1py": _elementwise,
    "aten::special_xlog1py.other_scalar": _elementwise,
    "aten::special_xlog1py.self_scalar": _elementwise,
    "aten::threshold": _unary,
    "aten::threshold_backward": _elementwise,
    "aten::unique_consecutive": _along(3),
    "aten::unique_dim": _along(1),
    "aten::unique_dim_consecutive": _along(1),
    "aten::xlogy.Scalar_Other": _elementwise,
    "aten::xlogy.Scalar_Self": _elementwise,
    "aten::xlogy.Tensor": _elementwise,
    "torch_google::native_batch_norm_functional": _as_argument(0),
}
