# SPDX-License-Identifier: Apache-2.0
"""Templates for lines that scatter, sort, use `out=`, promote dtypes or view complex numbers."""

from __future__ import annotations

from tests.fuzz.template import (
    X,
    has_dims,
    is_complex,
    is_disjoint,
    is_filled,
    is_finite,
    is_float,
    is_integer,
    is_long,
    is_mask,
    is_matrix,
    is_plain,
    is_real,
    is_single,
    row,
)

_TARGET = (is_single, is_plain, has_dims(1), is_filled)
# Indices into the first dimension, with a repeated index and a negative one.
_TWICE = "torch.tensor([0, -1, 0], device=device)"

SCATTERING = [
    row(f"{{x}}.index_put_(({_TWICE},), {{x}}[:1].clone(), accumulate=True)", _TARGET),
    row(
        f"{{x}}.index_add_(0, torch.zeros(3, dtype=torch.int64, device=device), {{x}}[{_TWICE}], alpha=2)",
        _TARGET,
    ),
    row("{x}.index_copy_(0, torch.tensor([0], device=device), {x}[-1:].clone())", _TARGET),
    row("{x}.index_fill_(<dim>, torch.tensor([0], device=device), <int>)", _TARGET),
    row("{x}.scatter_add_(<dim>, torch.zeros_like({x}, dtype=torch.int64), {x}.clone())", _TARGET),
    row("{x}.scatter_(0, torch.zeros_like({x}[:1], dtype=torch.int64), {x}[-1:].clone())", _TARGET),
    row(
        "{x}.scatter_reduce_(0, torch.zeros_like({x}, dtype=torch.int64), {x} * 2, 'amax')", _TARGET
    ),
    row(
        "{x}.scatter_reduce_(0, torch.zeros_like({x}, dtype=torch.int64), {x} * 2, 'sum', include_self=False)",
        _TARGET,
    ),
    row(
        "{out} = {x}.scatter_reduce(<dim>, torch.zeros_like({x}, dtype=torch.int64), {x}, 'mean')",
        (is_single, has_dims(1), is_filled),
        rounds=True,
    ),
    row(
        "{x}.put_(torch.tensor([0, 0], device=device), {x}.flatten()[:1].expand(2).clone(), accumulate=True)",
        _TARGET,
    ),
    row("{x}.masked_scatter_({x} > 0, {x}.flip(0).clone())", _TARGET, sharp=True),
    row("{x}[[0, -1]] += 2", (is_real, is_plain, has_dims(1), is_filled)),
    row("{x}[[0, -1], ..., 0] = <int>", (is_real, is_plain, has_dims(2), is_filled)),
    row("{x}[..., None, 0] *= 2", (is_real, is_plain, has_dims(1), is_filled)),
    row("{x}[{x}[..., :1].squeeze(-1) > 0] = 1", (is_real, is_plain, has_dims(2)), sharp=True),
    row("{x}.diagonal().fill_(<int>)", (is_real, is_plain, has_dims(2))),
    row("{x}.flatten().add_(1)", (is_real, is_plain)),
    row("{x}.data.mul_(2)", (is_single, is_disjoint)),
    row("{x}.copy_({y})", (is_float, is_plain), (is_mask, is_plain)),
    row("{x}.logical_not_()", (is_mask, is_plain)),
    row("{x}.bitwise_or_(1)", (is_integer, is_plain)),
    row("{x}.lerp_({x} * 2, 0.5).sub_(1).div_(2)", (is_single, is_plain)),
    row("{x}.addcdiv_({x}, {x}.abs() + 1).pow_(2).sqrt_()", (is_single, is_plain), rounds=True),
    row("{x}.squeeze_().unsqueeze_(-1).swapaxes_(0, -1)", (is_plain,)),
    row("{out} = torch.empty_like({x}).resize_(3).fill_(1)", (is_real,)),
    row(
        "{out} = {x}.index_add(0, torch.zeros(len({x}), dtype=torch.int64, device=device), {x})",
        (is_single, has_dims(1), is_filled),
    ),
    row(
        "{out} = {x}.index_copy(0, torch.tensor([0], device=device), {x}[:1] * 2)",
        (is_single, has_dims(1), is_filled),
    ),
    row(
        "{out} = {x}.slice_scatter({x}[:1] * 2, 0, 0, 1).select_scatter({x}[0] * 3, 0, -1)",
        (is_single, has_dims(1), is_filled),
    ),
    row("{out} = {x}.diagonal_scatter({x}.diagonal() * 2)", (is_single, is_matrix)),
    row(
        "{out} = torch.take_along_dim({x}, {x}.argsort(dim=0, stable=True), 0)",
        (is_single, has_dims(1)),
        sharp=True,
    ),
    row(f"{{out}} = {{x}}[{_TWICE}]", (has_dims(1), is_filled)),
    row(f"{{out}} = {{x}}[{_TWICE}[:, None], {_TWICE}]", (has_dims(2), is_filled)),
    row(f"{{out}} = {{x}}[..., {_TWICE}, None]", (has_dims(1), is_filled)),
    row("{out} = {x}[..., -1:][:, None, 0]", (has_dims(2),)),
    row("{out} = {x}[{x}.isnan(), ..., None]", (is_float,)),
]

SORTS = [
    row(
        "{out} = {x}.argsort(dim=<dim>, descending=True, stable=True)",
        (is_real, has_dims(1)),
        sharp=True,
    ),
    row("{out} = {x}.argmax(<dim>, keepdim=True)", (is_real, has_dims(1), is_filled), sharp=True),
    row("{out} = {x}.argmin()", (is_real, is_filled), sharp=True),
    row("{out} = {x}.cummax(<dim>).values + {x}.cummin(<dim>).values", (is_single, has_dims(1))),
    row("{out} = {x}.cumsum(<dim>, dtype=torch.float64)", (is_real, has_dims(1))),
    row("{out} = {x}.clamp(-1, 1).cumprod(<dim>)", (is_real, has_dims(1)), rounds=True),
    row(
        "{out} = {x}.clamp(-4, 4).logcumsumexp(<dim>)",
        (is_single, has_dims(1), is_finite),
        rounds=True,
    ),
    row("{out} = {x}.kthvalue(1, <dim>).values", (is_single, has_dims(1), is_filled)),
    # On the CPU, the median along an expanded dimension reads uninitialized memory.
    row("{out} = {x}.median(<dim>).values", (is_real, has_dims(1), is_filled, is_disjoint)),
    row(
        "{out} = {x}.quantile(0.25, <dim>)",
        (is_single, has_dims(1), is_filled, is_finite),
        rounds=True,
    ),
    row("{out} = {x}.diff(dim=<dim>)", (is_real, has_dims(1))),
    row(
        "{out} = torch.searchsorted({x}.flatten().sort().values, {x})",
        (is_single, is_finite),
        sharp=True,
    ),
    row(
        "{out} = torch.bucketize({x}, torch.tensor([-1.0, 0.0, 1.0], device=device), right=True)",
        (is_single,),
        sharp=True,
    ),
    row("{out} = torch.bincount({x}.flatten().abs() % 5, minlength=3)", (is_long,)),
    row("{out} = torch.histc({x}, 4, -2, 2)", (is_single, is_finite), sharp=True),
    row(
        "{out} = torch.cat(torch.unique({x}, return_inverse=True, return_counts=True)[1:][::-1])",
        (is_integer, lambda x: x.dim() == 1),
        sharp=True,
    ),
    row("{out} = {x}.unique_consecutive()", (is_integer,), sharp=True),
    row("{out} = {x}.count_nonzero(<dim>)", (has_dims(1),), sharp=True),
    # The inputs are contiguous, because the CPU rejects other inputs depending on their size.
    row(
        "{out} = torch.isin({x}.contiguous(), {y}.contiguous())", (is_real,), (is_real,), sharp=True
    ),
    row("{out} = {x}.nan_to_num(1, 2, 3)", (is_float,)),
    row("{out} = {x}.std(<dim>) + {x}.mean()", (is_single, has_dims(1), is_finite), rounds=True),
    row("{out} = {x}.nansum(<dim>)", (is_float, has_dims(1))),
    row("{out} = {x}.sum((0, -1), dtype=torch.float64)", (is_real, has_dims(2))),
    row("{out} = {x}.argwhere()", (is_real,), sharp=True),
    row("{out} = {x}.logical_xor({y}.bool())", (is_real,), (is_real,), sharp=True),
]

OUT = [
    row(
        "{out} = torch.zeros(9, device=device)[::2]; torch.add({x}, 1, out={out}[:3])",
        (is_single, is_plain, lambda x: x.shape == (3,)),
    ),
    row("torch.mul({x}, {y}, out={x})", (is_single, is_plain), (is_single, is_plain)),
    row(
        "{out} = torch.empty(0, dtype=torch.float64, device=device); torch.sum({x}, 0, out={out})",
        (is_single, is_plain, has_dims(1)),
    ),
    row(
        "{out} = torch.empty(0, dtype=torch.int64, device=device); torch.argmax({x}, 0, out={out})",
        (is_single, is_plain, has_dims(1), is_filled),
        sharp=True,
    ),
    row(
        "{out} = torch.empty(0, device=device); torch.cat([{x}, {x}], out={out})",
        (is_single, is_plain, has_dims(1)),
    ),
    row(
        "{out} = torch.empty(0, device=device); torch.matmul({x}, {x}.mT, out={out})",
        (is_single, is_plain, has_dims(2)),
    ),
    row(
        "{out} = torch.empty(0, device=device); i = torch.empty(0, dtype=torch.int64, device=device); torch.sort({x}, stable=True, dim=0, out=({out}, i))",
        (is_single, is_plain, has_dims(1)),
    ),
    row(
        "{out} = torch.empty(0, dtype=torch.bool, device=device); torch.gt({x}, 0, out={out})",
        (is_single, is_plain),
        sharp=True,
    ),
    row(
        "{out} = {x}.clone(); torch.where({x} > 0, {x}, {x} * 2, out={out})",
        (is_single, is_plain),
        sharp=True,
    ),
    row(
        "{out} = torch.ones({x}.shape, dtype=torch.int64, device=device); torch.sum({x}[None], 0, out={out})",
        (is_single, is_plain, is_finite),
        sharp=True,
    ),
    row("torch.cumsum({x}, 0, out={x})", (is_single, is_plain, has_dims(1))),
]

PROMOTION = [
    row("{out} = {x} + <scalar>", X),
    row("{out} = {x} * <scalar>", X),
    row("{out} = {x} / <scalar>", (is_real,), rounds=True),
    row("{out} = <scalar> - {x}", (is_real,)),
    row("{out} = {x} ** 2", (is_real,)),
    row("{out} = 2.0 ** {x}.clamp(-3, 3)", (is_real, is_finite), rounds=True),
    row("{out} = {x} * torch.tensor(<scalar>)", X),
    row("{out} = {x} + torch.tensor(<scalar>, device=device)", X),
    row("{out} = {x} * torch.ones((1,), dtype=torch.float64, device=device)", X),
    row("{out} = torch.add({x}, {y}, alpha=2)", (is_real,), (is_real,)),
    row("{out} = torch.where({x}, <scalar>, {y})", (is_mask,), X),
    row("{out} = torch.full({x}.shape, <scalar>, device=device)", X),
    row("{out} = torch.full_like({x}, 2) + {x}.new_tensor([1])", X),
    # Complex infinities are excluded: the CPU negates {y} with a complex multiplication by -1,
    # which turns infinity into NaN.
    row("{out} = {x} - {y}", X, (lambda x: not x.is_complex() or is_finite(x),)),
    row("{out} = {x} == <scalar>", X, sharp=True),
    row("{out} = torch.floor_divide({x}, 3) + torch.true_divide({x}, 4)", (is_real,), sharp=True),
    row("{out} = torch.div({x}, 3, rounding_mode='trunc')", (is_real,), sharp=True),
    row("{out} = torch.remainder({x}, -3)", (is_real,), sharp=True),
    row("{out} = {x}.clamp({y}, {y} + 1)", (is_real,), (is_real,)),
    row("{out} = torch.atan2({x}, {y}.abs() + 1)", (is_real,), (is_real,), rounds=True),
    row(
        "{out} = {x}.sum(dtype=torch.float32) + {x}.prod()",
        (is_integer, lambda x: x.numel() < 4),
        rounds=True,
    ),
    row("{out} = {x} >> 1", (is_integer,)),
    row("{out} = torch.gcd({x}, {y})", (is_long,), (is_long,)),
    row("{out} = {x} and {y}", (lambda x: x.numel() == 1,), X, sharp=True),
    row("{out} = torch.tensor([1, 2][bool({x}.any())], device=device)", X, sharp=True),
    row("{out} = torch.arange(0, 3, 0.5, dtype=torch.bfloat16, device=device) + {x}.dim()", X),
    row(
        "{out} = torch.linspace(0, 1, 3, device=device) + {x}[..., :1]",
        (is_single, has_dims(1)),
        rounds=True,
    ),
]

COMPLEX = [
    row("{out} = {x}.conj()", (is_complex,)),
    row("{out} = {x}.mH", (is_complex, has_dims(2))),
    row("{out} = {x}.conj().imag", (is_complex,)),
    row("{out} = {x}.conj().resolve_conj()", (is_complex,)),
    row("{out} = {x}.conj().imag.resolve_neg()", (is_complex,)),
    row("{out} = torch.view_as_real({x})[..., 0]", (is_complex, lambda x: not x.is_conj())),
    # Empty tensors are excluded: view_as_complex also checks their strides, but the strides of an
    # empty result such as x - 2 differ between torch's meta and CPU kernels.
    row(
        "{out} = torch.view_as_complex({x})",
        (is_single, lambda x: x.numel() > 0 and x.is_contiguous() and x.shape[-1:] == (2,)),
    ),
    row("{out} = torch.view_as_complex(torch.stack([{x}, {x} * 2], -1))", (is_single,)),
    row("{x}.real.add_(1)", (is_complex, is_plain)),
    row("{x}.imag.mul_(2)", (is_complex, is_plain)),
    row("{x}.conj().mul_(2j)", (is_complex, is_plain)),
    row("{x}.mul_({x}.conj())", (is_complex, is_plain)),
    row("{x}.copy_({y})", (is_complex, is_plain), (is_real, is_plain)),
    row("{x}[..., :1] = 1j", (is_complex, is_plain, has_dims(1))),
    # Zeros are excluded: the angle of zero depends on its sign, which a device may lose.
    row(
        "{out} = {x}.abs() + {x}.angle().cos()",
        (is_complex, is_finite, lambda x: bool((x.detach() != 0).all())),
        rounds=True,
    ),
    row("{out} = {x} @ {x}.mH", (is_complex, has_dims(2))),
    row(
        "{out} = {x}.exp() / 4",
        (is_complex, is_finite, is_filled, lambda x: float(x.detach().abs().max()) < 8),
        rounds=True,
    ),
    row("{out} = {x}.to(torch.complex128) + 1j", X),
    row("{out} = {x}.sum(<dim>)", (is_complex, has_dims(1))),
]
