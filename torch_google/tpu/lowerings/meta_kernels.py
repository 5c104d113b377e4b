# SPDX-License-Identifier: Apache-2.0
"""Meta kernels for operators whose meta kernels in torch are missing or wrong.

The docstring of each replacement says what is wrong in torch. This module also defines our pure
variant of `aten::native_batch_norm`, which returns the running statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import _meta_registrations
from torch._decomp import decompositions

from torch_google.tpu.release import V2_6, has_operator, override

_META = torch.library.Library("aten", "IMPL", "Meta")
_OURS = torch.library.Library("torch_google", "FRAGMENT")
_OURS.define(
    "native_batch_norm_functional(Tensor input, Tensor? weight, Tensor? bias, "
    "Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)


def _batch_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    *options: float,
) -> tuple[torch.Tensor, ...]:
    pure = torch.ops.aten.native_batch_norm.default
    out = pure(x, weight, bias, running_mean, running_var, *options)
    stats = (running_mean, running_var)
    return *out, *(torch.empty_like(s) if s is not None else x.new_empty(0) for s in stats)


def _geqrf(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(a), a.new_empty((*a.shape[:-2], min(a.shape[-2:])))


def _lstsq(
    a: torch.Tensor, b: torch.Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    m, n = a.shape[-2:]
    driver = driver or "gelsy"
    vector = a.ndim - 1 == b.ndim and a.shape[:-1] == b.shape
    columns = b.unsqueeze(-1) if vector else b
    lead = torch.broadcast_shapes(a.shape[:-2], columns.shape[:-2])
    solution = a.new_empty((*lead, n) if vector else (*lead, n, columns.shape[-1]))
    real = torch.empty((), dtype=a.dtype, device="meta").abs().dtype
    tall = m > n and driver != "gelsy"
    residuals = a.new_empty((*lead, columns.shape[-1]) if tall else (0,), dtype=real)
    rank = a.new_empty((0,) if driver == "gels" else a.shape[:-2], dtype=torch.int64)
    has_values = driver in ("gelsd", "gelss")
    values = a.new_empty((*a.shape[:-2], min(m, n)) if has_values else (0,), dtype=real)
    return solution, residuals, rank, values


def _like_second(grad: torch.Tensor, x: torch.Tensor, *rest: object) -> torch.Tensor:
    return torch.empty_like(x)


def _multi_margin_loss(
    x: torch.Tensor,
    target: torch.Tensor,
    p: float = 1,
    margin: float = 1,
    weight: torch.Tensor | None = None,
    reduction: int = 1,
) -> torch.Tensor:
    """Return one loss per target. For a scalar target, torch's meta kernel adds a dimension."""
    return x.new_empty(target.shape if reduction == 0 else ())


def _multilabel_margin_loss(
    x: torch.Tensor, target: torch.Tensor, reduction: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a zero-dimensional loss for a single row; torch's meta kernel adds a dimension."""
    rows = x.shape[:1] if x.ndim == 2 and reduction == 0 else ()
    return x.new_empty(rows), x.new_empty(target.shape)


def _of_empty_batches(meta: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Wrap a meta kernel that rejects empty batches, so that it accepts them."""

    def kernel(x: torch.Tensor, *options: Any) -> torch.Tensor:
        if not x.ndim or x.shape[0]:
            return meta(x, *options)
        return meta(x.new_empty((1, *x.shape[1:])), *options)[:0]

    return kernel


def _bmm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Accept different dtypes if the product is empty, which torch's meta kernel rejects."""
    if _is_a_product_of_nothing(a, b):
        return b.new_empty((*a.shape[:2], b.shape[2]))
    return _meta_registrations.meta_bmm(a, b)


def _baddbmm(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    """Accept different dtypes if the product is empty, like `_bmm`."""
    if _is_a_product_of_nothing(a, b):
        return b.new_empty((*a.shape[:2], b.shape[2]))
    return _meta_registrations.meta_baddbmm(c, a, b, beta=beta, alpha=alpha)


def _is_a_product_of_nothing(a: torch.Tensor, b: torch.Tensor) -> bool:
    fits = a.ndim == b.ndim == 3 and a.shape[::2] == b.shape[:2]
    return fits and a.dtype != b.dtype and not (a.numel() and b.numel())


def _window(
    window_length: int, *shape: float, dtype: torch.dtype | None = None, **where: object
) -> torch.Tensor:
    return torch.empty(window_length, dtype=dtype, device="meta")


def _of_dimension(
    x: torch.Tensor, dim: int = -1, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Allow deterministic mode, in which torch's meta kernel rejects all devices, not only CUDA."""
    values = torch.ops.aten.kthvalue.default(x, 1, dim, keepdim)[0] if x.ndim else x
    return torch.empty_like(values), torch.empty_like(values, dtype=torch.int64)


def _histc(x: torch.Tensor, bins: int = 100, least: float = 0, most: float = 0) -> torch.Tensor:
    """Allow deterministic mode, like `_of_dimension`."""
    if bins <= 0:
        raise RuntimeError(f"histc(): bins must be > 0, but got {bins}")
    if least > most:
        raise RuntimeError(f"histc(): max must be larger than min, but got {most} and {least}")
    return x.new_empty((bins,))


def _into(kernel: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """Return a kernel that writes the results to the arguments with these names."""

    def written(*args: Any, **named: Any) -> Any:
        targets = [named.pop(name) for name in names]
        results = kernel(*args, **named)
        for target, result in zip(targets, results if len(names) > 1 else (results,), strict=True):
            if target.shape != result.shape:
                target.resize_(result.shape)
        return tuple(targets) if len(names) > 1 else targets[0]

    return written


def _nll_loss(x: torch.Tensor, target: torch.Tensor, *options: Any) -> tuple[torch.Tensor, ...]:
    """Accept uint8 classes, which torch's meta kernel rejects."""
    if target.dtype == torch.uint8:
        target = target.to(torch.int64)
    losses: tuple[torch.Tensor, ...] = decompositions.nll_loss_forward(x, target, *options)
    return losses


def _where(condition: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Accept a uint8 condition, as the CPU does with a warning. torch's meta kernel rejects it."""
    if condition.dtype == torch.uint8:
        condition = condition.to(torch.bool)
    chosen: torch.Tensor = torch._refs.where(condition, x, y)
    return chosen


def _segment_reduce(x: torch.Tensor, reduce: str, *, axis: int = 0, **options: Any) -> torch.Tensor:
    """Accept negative dimensions, which v2.6's meta kernel rejects."""
    axis = axis % x.ndim if x.ndim else axis
    reduced: torch.Tensor = _meta_registrations.meta_segment_reduce(x, reduce, axis=axis, **options)
    return reduced


def _view_copy(x: torch.Tensor, size: list[int]) -> torch.Tensor:
    """Accept strides for which no view exists, which torch's meta kernel rejects."""
    return x.reshape(size).clone(memory_format=torch.contiguous_format)


def _in_place(*args: object, **options: object) -> None:
    pass


def _bernoulli_out(
    x: torch.Tensor, *, generator: torch.Generator | None = None, out: torch.Tensor
) -> torch.Tensor:
    """Accept any dtype for the result, whereas torch's meta kernel accepts only floats."""
    return torch.add(torch.empty_like(x, dtype=torch.bool), False, out=out)


def _like_first(x: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.empty_like(x)


def _with_mask(x: torch.Tensor, *_: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)


def _learned(
    gradient: torch.Tensor, x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, *_: Any
) -> tuple[torch.Tensor, ...]:
    return tuple(torch.empty_like(t) for t in (x, scale, zero_point))


def _padded(
    values: torch.Tensor, offsets: list[torch.Tensor], lengths: list[int], padding: float = 0.0
) -> torch.Tensor:
    return values.new_empty([offsets[0].numel() - 1, lengths[0], *values.shape[1:]])


def _jagged(
    dense: torch.Tensor, offsets: list[torch.Tensor], total: int | None = None
) -> torch.Tensor:
    if total is None:
        raise NotImplementedError("the number of rows depends on the last offset's value")
    return dense.new_empty([total, *dense.shape[2:]])


def _efficient_attention_grads(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any, **named: Any
) -> tuple[torch.Tensor | None, ...]:
    """Return gradients with the head counts of k and v, whereas torch's meta kernel uses q's."""
    kernel = _meta_registrations.meta__scaled_dot_product_efficient_backward
    grads: tuple[torch.Tensor | None, ...] = kernel(grad, q, k, v, *rest, **named)
    if k.shape[1] == q.shape[1]:
        return grads
    # As in torch's results, the heads of each sequence position are adjacent in memory.
    shared = [x.new_empty(x.transpose(1, 2).shape).transpose(1, 2) for x in (k, v)]
    return grads[0], *shared, *grads[3:]


def _grouped_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Accept the same dtypes as the CPU, whereas torch's meta kernel accepts only bfloat16."""
    for name, x in (("a", a), ("b", b)):
        if x.dtype not in (torch.float32, torch.bfloat16, torch.float16):
            raise RuntimeError(
                f"Expected mat_{name} to be Float32, BFloat16 or Float16 matrix, got {x.dtype}"
            )
        if x.ndim not in (2, 3):
            raise RuntimeError(f"mat_{name} has to be 2 or 3d")
        _check_grouped_strides(x)
    ranks = (a.ndim, b.ndim)
    groups = [x.shape[0] for x in (a, b) if x.ndim == 3]
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {a.dtype} != {b.dtype}"
        )
    if (out_dtype or a.dtype) != a.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    if (offs is None) != (ranks == (3, 3)):
        raise RuntimeError(
            "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
        )
    if offs is not None:
        if offs.ndim != 1:
            raise RuntimeError("offs has to be 1D")
        if offs.dtype != torch.int32:
            raise RuntimeError("Offsets have to be int32")
        groups.append(offs.shape[0])
    if len(set(groups)) != 1:
        raise RuntimeError("matrix batch sizes have to match")
    lead = groups[:1] if ranks in ((2, 2), (3, 3)) else []
    # As in torch, each row of the result is padded to a multiple of 16 bytes.
    elements = 16 // a.element_size()
    columns = b.shape[-1]
    padded = -(-columns // elements) * elements
    return a.new_empty((*lead, a.shape[-2], padded))[..., :columns]


def _check_grouped_strides(x: torch.Tensor) -> None:
    rows, columns = x.shape[-2:]
    across, along = x.stride()[-2:]
    if along == 1 and across >= max(1, columns):
        step = across
    elif across == 1 and along >= max(1, rows):
        step = along
    else:
        raise RuntimeError(
            f"Invalid strides/sizes, got {list(x.stride())} for strides and {list(x.shape)} for "
            "sizes"
        )
    if step * x.element_size() % 16:
        raise RuntimeError("strides should be multiple of 16 bytes")


def _scaled_mm(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_result: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> torch.Tensor:
    """Accept the sizes and scales that the CPU accepts. torch's meta kernel assumes CUDA."""
    if a.ndim != 2 or b.ndim != 2:
        raise RuntimeError(
            f"scaled_mm: expected two matrices, got {a.ndim} and {b.ndim} dimensions"
        )
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"scaled_mm: mat1 and mat2 shapes cannot be multiplied, got {tuple(a.shape)} and"
            f" {tuple(b.shape)}"
        )
    if not all(x.is_floating_point() and x.element_size() == 1 for x in (a, b)):
        raise RuntimeError(f"scaled_mm: expected two matrices of float8, got {a.dtype}, {b.dtype}")
    if scale_a.dtype != torch.float32 or scale_b.dtype != torch.float32:
        raise RuntimeError(
            f"scaled_mm: expected scales of float32, got {scale_a.dtype} and {scale_b.dtype}"
        )
    expected = (a.shape[0], 1), (1, b.shape[1])
    shapes = tuple(scale_a.shape), tuple(scale_b.shape)
    if shapes != expected and not scale_a.numel() == scale_b.numel() == 1:
        raise RuntimeError(
            f"scaled_mm: expected one scale for each operand, or scales of shape {expected[0]} and"
            f" {expected[1]}, got {shapes[0]} and {shapes[1]}"
        )
    return a.new_empty((a.shape[0], b.shape[1]), dtype=out_dtype or a.dtype)


def _scaled_mm_v2(
    a: torch.Tensor,
    b: torch.Tensor,
    scale_a: list[torch.Tensor],
    recipe_a: list[int],
    swizzle_a: list[int],
    scale_b: list[torch.Tensor],
    recipe_b: list[int],
    swizzle_b: list[int],
    bias: torch.Tensor | None,
    out_dtype: torch.dtype | None,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> torch.Tensor:
    """Accept the sizes and scales that the CPU accepts. torch's meta kernel assumes CUDA."""
    if len(scale_a) != 1 or len(scale_b) != 1:
        raise RuntimeError(
            f"scaled_mm: expected one tensor of scales for each operand, got {len(scale_a)} and"
            f" {len(scale_b)}"
        )
    return _scaled_mm(a, b, scale_a[0], scale_b[0], bias, None, out_dtype)


_OURS.impl("native_batch_norm_functional", _batch_norm, "Meta")
override(_META, "bernoulli.out", _bernoulli_out)
_META.impl("_ctc_loss_backward", _like_second)
_META.impl("_ctc_loss_backward.Tensor", _like_second)
for _name in ("_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_"):
    if has_operator(f"aten::{_name}.tensor_lr"):
        _META.impl(f"{_name}.tensor_lr", _in_place)
_META.impl("_fused_adagrad_", _in_place)
_META.impl("_fused_sgd_", _in_place)
_META.impl("fractional_max_pool3d_backward", _like_second)
_META.impl("geqrf", _geqrf)
for _name in ("", ".periodic", ".beta"):
    _META.impl(f"kaiser_window{_name}", _window)
_META.impl("linalg_lstsq", _lstsq)
override(_META, "baddbmm", _baddbmm)
override(_META, "bmm", _bmm)
override(_META, "histc", _histc)
override(_META, "histc.out", _into(_histc, "out"))
for _name in ("median.dim", "nanmedian.dim", "mode"):
    override(_META, _name, _of_dimension)
for _name in ("median.dim_values", "nanmedian.dim_values", "mode.values"):
    override(_META, _name, _into(_of_dimension, "values", "indices"))
override(_META, "_scaled_dot_product_efficient_attention_backward", _efficient_attention_grads)
if has_operator("aten::_grouped_mm"):
    override(_META, "_grouped_mm", _grouped_mm)
override(_META, "_scaled_mm", _scaled_mm)
if has_operator("aten::_scaled_mm_v2"):
    override(_META, "_scaled_mm_v2", _scaled_mm_v2)
override(_META, "nll_loss_forward", _nll_loss)
override(_META, "nll_loss_backward", _like_second)
override(_META, "multi_margin_loss", _multi_margin_loss)
override(_META, "view_copy", _view_copy)
override(_META, "where.self", _where)
if V2_6:
    override(_META, "segment_reduce", _segment_reduce)
_META.impl("multi_margin_loss_backward", _like_second)
_META.impl("multilabel_margin_loss_backward", _like_second)
override(_META, "multilabel_margin_loss_forward", _multilabel_margin_loss)
for _name in ("upsample_nearest", "_upsample_nearest_exact"):
    for _rank in (1, 2, 3):
        _theirs = getattr(_meta_registrations, f"upsample_nearest{_rank}d")
        override(_META, f"{_name}{_rank}d", _of_empty_batches(_theirs))
for _name in ("tensor", "channel"):
    _META.impl(f"fake_quantize_per_{_name}_affine_cachemask", _with_mask)
    _META.impl(f"_fake_quantize_learnable_per_{_name}_affine", _like_first)
    _META.impl(f"_fake_quantize_learnable_per_{_name}_affine_backward", _learned)
_META.impl("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", _with_mask)
_META.impl("_dirichlet_grad", _like_first)
_META.impl("glu_jvp", _like_first)
_META.impl("glu_backward_jvp", _like_first)
override(_META, "_jagged_to_padded_dense_forward", _padded)
_META.impl("_padded_dense_to_jagged_forward", _jagged)
