# SPDX-License-Identifier: Apache-2.0
"""The table of lines that a random program is made of.

Each entry has a template, with `{x}`, `{y}`, `{z}` for tensors and `{out}` for a new name, and the
conditions that its tensors meet. Words in `<...>` are chosen: `<dim>`, `<int>`, `<number>`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tests.fuzz.state import Condition


def _any(_: torch.Tensor) -> bool:
    return True


def _float(x: torch.Tensor) -> bool:
    return x.is_floating_point()


def _single(x: torch.Tensor) -> bool:
    return x.dtype is torch.float32


def _real(x: torch.Tensor) -> bool:
    return not x.is_complex() and x.dtype is not torch.bool


def _integer(x: torch.Tensor) -> bool:
    return not x.is_floating_point() and not x.is_complex() and x.dtype is not torch.bool


def _mask(x: torch.Tensor) -> bool:
    return x.dtype is torch.bool


def _finite(x: torch.Tensor) -> bool:
    """Values that have an integer: a cast of others is undefined in C, and differs between loops."""
    return bool(torch.isfinite(x).all())


def _deep(dims: int) -> Condition:
    return lambda x: x.dim() >= dims


def _plain(x: torch.Tensor) -> bool:
    # Elements that share memory (unfold, expand) are written in an order that nothing defines.
    return not x.requires_grad and torch._debug_has_internal_overlap(x) == 0


@dataclass(frozen=True)
class Operator:
    """A template. `sharp` ones jump where their input rounds, so they read exact tensors only."""

    template: str
    conditions: tuple[tuple[Condition, ...], ...]
    rounds: bool = False
    sharp: bool = False


def _row(
    template: str, *conditions: tuple[Condition, ...], rounds: bool = False, sharp: bool = False
) -> Operator:
    return Operator(template, conditions, rounds, sharp)


_X = (_any,)
_POINTWISE = [
    _row("{out} = {x} + {y}", _X, _X),
    _row("{out} = {x} - {y}", (_real,), (_real,)),
    _row("{out} = {x} * {y}", _X, _X),
    _row("{out} = {x} + <number>", _X),
    _row("{out} = {x} * <number>", _X),
    _row("{out} = <number> - {x}", (_real,)),
    _row("{out} = {x} // 2", (_real,), sharp=True),
    _row("{out} = {x} % 3", (_real,), sharp=True),
    _row("{out} = torch.fmod({x}, 3)", (_real,), sharp=True),
    _row("{out} = {x} / 4", (_real,)),
    _row("{out} = {x} / ({y}.abs() + 1)", (_real,), (_real,), rounds=True),
    _row("{out} = torch.maximum({x}, {y})", (_real,), (_real,)),
    _row("{out} = torch.minimum({x}, {y})", (_real,), (_real,)),
    _row("{out} = torch.where({x}, {y}, {z})", (_mask,), _X, _X),
    _row("{out} = torch.where({x}, {y}, <number>)", (_mask,), _X),
    _row("{out} = {x} > {y}", (_real,), (_real,), sharp=True),
    _row("{out} = {x} <= <number>", (_real,), sharp=True),
    _row("{out} = {x} == {y}", _X, _X, sharp=True),
    _row("{out} = {x} & {y}", (_mask,), (_mask,)),
    _row("{out} = {x} ^ {y}", (_integer,), (_integer,)),
    _row("{out} = ~{x}", (_mask,)),
    _row("{out} = {x} << 1", (_integer,)),
    _row("{out} = -{x}", (_real,)),
    _row("{out} = {x}.abs()", (_real,)),
    _row("{out} = {x}.square()", (_real,)),
    _row("{out} = F.relu({x})", (_float,)),
    _row("{out} = {x}.clamp(-1, 2)", (_real,)),
    _row("{out} = {x}.floor()", (_float,), sharp=True),
    _row("{out} = {x}.round()", (_float,), sharp=True),
    _row("{out} = {x}.sign()", (_real,), sharp=True),
    _row("{out} = {x}.tanh()", (_float,), rounds=True),
    _row("{out} = {x}.sigmoid()", (_float,), rounds=True),
    _row("{out} = F.gelu({x})", (_float,), rounds=True),
    _row("{out} = F.silu({x})", (_float,), rounds=True),
    _row("{out} = F.softplus({x})", (_float,), rounds=True),
    _row("{out} = {x}.clamp(-4, 4).exp()", (_float,), rounds=True),
    _row("{out} = ({x}.abs() + 1).log()", (_float,), rounds=True),
    _row("{out} = ({x}.abs() + 1).rsqrt()", (_float,), rounds=True),
    _row("{out} = {x}.cos()", (_float,), rounds=True),
    _row("{out} = torch.lerp({x}, {x} * 2, 0.5)", (_single,)),
    _row("{out} = torch.addcmul({x}, {x}, {x}, value=2)", (_single,)),
    _row("{out} = {x}.isnan() | {x}.isinf()", (_float,)),
    _row("{out} = torch.complex({x}, -{x})", (_single,), rounds=True),
    _row("{out} = {x}.conj() * {x}", (lambda x: x.is_complex(),), rounds=True),
    _row("{out} = {x}.real", (lambda x: x.is_complex(),), rounds=True),
    _row("{out} = {x}.imag", (lambda x: x.is_complex(),), rounds=True),
]
_CASTS = [
    _row("{out} = {x}.to(torch.float32)", (_real,)),
    _row("{out} = {x}.to(torch.float64)", (_real,)),
    _row("{out} = {x}.to(torch.bfloat16)", (_float,), rounds=True),
    _row("{out} = {x}.to(torch.float16)", (_float,), rounds=True),
    _row("{out} = {x}.to(torch.int64)", (_real, _finite), sharp=True),
    _row("{out} = {x}.clamp(-100, 100).to(torch.int8)", (_real, _finite), sharp=True),
    _row("{out} = {x}.abs().clamp(max=200).to(torch.uint8)", (_real, _finite), sharp=True),
    _row("{out} = {x}.to(torch.int32)", (_real, _finite), sharp=True),
    _row("{out} = {x} != 0", (_real,), sharp=True),
    _row("{out} = {x}.type_as({y})", (_real, _finite), (_float,)),
]
_VIEWS = [
    _row("{out} = {x}.transpose(<dim>, <dim>)", (_deep(2),)),
    _row("{out} = {x}.permute(*reversed(range({x}.dim())))", (_deep(2),)),
    _row("{out} = {x}[1:]", (_deep(1),)),
    _row("{out} = {x}[..., ::2]", (_deep(1),)),
    _row("{out} = {x}[..., -1]", (_deep(1),)),
    _row("{out} = {x}[None]", _X),
    _row("{out} = {x}.unsqueeze(-1)", _X),
    _row("{out} = {x}.squeeze()", _X),
    _row("{out} = {x}.expand(2, *{x}.shape)", _X),
    _row("{out} = {x}.diagonal()", (_deep(2),)),
    _row("{out} = {x}.unfold(0, 2, 1)", (_deep(1),)),
    _row("{out} = {x}.flatten()", _X),
    _row("{out} = {x}.reshape(-1, 2)", _X),
    _row("{out} = {x}.view(-1)", _X),
    _row("{out} = {x}.narrow(<dim>, 1, 1)", (_deep(1),)),
    _row("{out} = {x}.chunk(2, <dim>)[-1]", (_deep(1),)),
    _row("{out} = {x}.unbind(<dim>)[0]", (_deep(1),)),
    _row("{out} = {x}.movedim(0, -1)", (_deep(2),)),
    _row(
        "{out} = {x}.as_strided((2, 2), (1, 1))", (lambda x: x.numel() > 3 and x.is_contiguous(),)
    ),
    _row("{out} = {x}.detach()", _X),
    _row("{out} = {x}.view(torch.int32).view(torch.float32)", (_single,)),
    _row("{out} = torch.view_as_real({x})", (lambda x: x.is_complex(),), rounds=True),
]
_CHANGES = [
    _row("{x}.add_({y})", (_real, _plain), (_real, _plain)),
    _row("{x}.mul_(<number>)", (_real, _plain)),
    _row("{x}.copy_({y})", (_real, _plain), (_real, _plain, _finite), sharp=True),
    _row("{x}.fill_(<int>)", (_real, _plain)),
    _row("{x}.zero_()", (_plain,)),
    _row("{x}.clamp_(-2, 2)", (_real, _plain)),
    _row("{x}.relu_()", (_float, _plain)),
    _row("{x}.tanh_()", (_float, _plain), rounds=True),
    _row("{x}.neg_()", (_real, _plain)),
    _row("{x}[0] = <int>", (_plain, _deep(1))),
    _row("{x}[..., 1:] += 1", (_real, _plain, _deep(1))),
    _row("{x}[1:].mul_(2)", (_real, _plain, _deep(1))),
    _row("{x}[..., 0] = {y}", (_plain, _deep(1), _single), (_single, _plain)),
    _row("{x}.masked_fill_({x} > 1, -1)", (_real, _plain), sharp=True),
    _row("{x}[{x} < 0] = 3", (_real, _plain), sharp=True),
    _row("{x}.t_()", (_plain, lambda x: x.dim() == 2)),
    _row("{x}.unsqueeze_(0)", (_plain,)),
    _row(
        "{x}.index_add_(0, torch.zeros(1, dtype=torch.int64, device=device), {x}[:1].clone())",
        (_single, _plain, _deep(1)),
    ),
    _row(
        "{x}.scatter_(0, torch.zeros_like({x}, dtype=torch.int64)[:1], 2)",
        (_single, _plain, _deep(1)),
    ),
    _row("{x}.T.add_(1)", (_real, _plain, lambda x: x.dim() == 2)),
    _row("torch.add({x}, {y}, out={x})", (_single, _plain), (_single, _plain)),
    _row("{out} = torch.empty(0, device=device); torch.mul({x}, 2, out={out})", (_single, _plain)),
]
_INDEXING = [
    _row("{out} = {x}[[0, -1]]", (_deep(1),)),
    _row("{out} = {x}[:, [0]]", (_deep(2),)),
    _row("{out} = {x}[{x} > 0]", (_real,), sharp=True),
    _row("{out} = {x}[{y}]", _X, (_mask,)),
    _row("{out} = {x}.nonzero()", (_real,), sharp=True),
    _row("{out} = {x}.gather(<dim>, torch.zeros_like({x}, dtype=torch.int64))", (_deep(1),)),
    _row("{out} = {x}.index_select(<dim>, torch.tensor([0, 0], device=device))", (_deep(1),)),
    _row(
        "{out} = {x}.take({y}.abs() % max({x}.numel(), 1))", _X, (lambda x: x.dtype is torch.int64,)
    ),
    _row("{out} = {x}.masked_fill({y}, <int>)", (_real,), (_mask,)),
    _row("{out} = F.one_hot({x}.abs() % 3, 3)", (lambda x: x.dtype is torch.int64,)),
    _row(
        "{out} = F.embedding({y}.abs() % {x}.shape[0], {x})",
        (_single, lambda x: x.dim() == 2 and x.shape[0] > 0),
        (lambda x: x.dtype is torch.int64,),
    ),
]
_REDUCTIONS = [
    _row("{out} = {x}.sum()", _X),
    _row("{out} = {x}.sum(<dim>)", (_deep(1),)),
    _row("{out} = {x}.sum(<dim>, keepdim=True)", (_deep(1),)),
    _row("{out} = {x}.mean(<dim>)", (_float, _deep(1)), rounds=True),
    _row("{out} = {x}.amax(<dim>)", (_real, _deep(1))),
    _row("{out} = {x}.max(<dim>).values", (_real, _deep(1))),
    _row("{out} = {x}.cumsum(<dim>)", (_real, _deep(1))),
    _row("{out} = {x}.clamp(-1, 1).prod(<dim>)", (_real, _deep(1)), rounds=True),
    _row("{out} = {x}.any()", _X, sharp=True),
    _row("{out} = {x}.all(<dim>)", (_deep(1),), sharp=True),
    _row("{out} = {x}.sort(<dim>, stable=True).indices", (_real, _deep(1)), sharp=True),
    _row("{out} = {x}.sort(<dim>, descending=True).values", (_real, _deep(1))),
    _row("{out} = {x}.topk(1, <dim>).values", (_real, _deep(1))),
    _row("{out} = {x}.var(<dim>, correction=0)", (_single, _deep(1)), rounds=True),
    _row("{out} = {x}.softmax(<dim>)", (_float, _deep(1)), rounds=True),
    _row("{out} = {x}.log_softmax(<dim>)", (_float, _deep(1)), rounds=True),
    _row("{out} = {x}.logsumexp(<dim>)", (_float, _deep(1)), rounds=True),
    _row("{out} = {x}.norm()", (_single,), rounds=True),
    _row("{out} = {x}.unique()", (_integer,), sharp=True),
    _row("{out} = {x}.median()", (_single, lambda x: x.numel() > 0), sharp=True),
]
_MANY = [
    _row("{out} = torch.cat([{x}, {y}])", (_deep(1),), (_deep(1),)),
    _row("{out} = torch.cat([{x}, {x} * 2], <dim>)", (_deep(1),)),
    _row("{out} = torch.stack([{x}, {x}])", _X),
    _row("{out} = {x} @ {y}", (_single, _deep(1)), (_single, _deep(1))),
    _row("{out} = {x} @ {x}.mT", (_single, _deep(2))),
    _row("{out} = F.linear({x}, {y})", (_single, _deep(1)), (_single, lambda x: x.dim() == 2)),
    _row("{out} = torch.einsum('i...,j...->ij', {x}, {x})", (_single, _deep(1))),
    _row("{out} = torch.outer({x}.flatten()[:4], {x}.flatten()[:3])", (_single,)),
    _row(
        "{out} = F.conv1d({x}[:, None], torch.ones(1, 1, 2, device=device))",
        (_single, lambda x: x.dim() == 2),
    ),
    _row("{out} = {x}.tril()", (_deep(2),)),
    _row("{out} = {x}.roll(1, <dim>)", (_deep(1),)),
    _row("{out} = {x}.flip(<dim>)", (_deep(1),)),
    _row("{out} = F.pad({x}, (1, 0), value=2)", (_real, _deep(1))),
    _row("{out} = {x}.repeat(2, *[1] * ({x}.dim() - 1))", (_deep(1),)),
    _row("{out} = {x}.repeat_interleave(2, <dim>)", (_deep(1),)),
    _row("{out} = F.layer_norm({x}, {x}.shape[-1:])", (_single, _deep(1)), rounds=True),
    _row("{out} = F.max_pool1d({x}, 2)", (_single, lambda x: x.dim() == 2)),
    _row("{out} = F.avg_pool1d({x}, 2)", (_single, lambda x: x.dim() == 2)),
    _row("{out} = F.interpolate({x}[None], scale_factor=2)", (_single, lambda x: x.dim() == 2)),
    _row("{out} = {x}.clone()", _X),
    _row("{out} = {x}.contiguous()", _X),
    _row("{out} = torch.zeros_like({x})", _X),
    _row("{out} = {x}.new_full((2, 3), <int>)", _X),
    _row("{out} = torch.arange({x}.dim() + 3, device=device)", _X),
]
_CONTROL = [
    _row("{out} = {x} + 1 if {x}.sum().item() > 0 else {x} - 1", (_real,), sharp=True),
    _row("{out} = {x} * int({x}.numel() and {x}.flatten()[0].item() > 0)", (_real,), sharp=True),
    _row("{out} = torch.tensor({x}.tolist(), device=device)", (_real,), sharp=True),
    _row("{out} = {x}.cpu().clone().to(device)", _X),
]
_AUTOGRAD = [
    _row("{out} = {x}.detach().clone().requires_grad_()", (_single,)),
    _row(
        "{out} = checkpoint(lambda x: (x * x).tanh(), {x}, use_reentrant=False)",
        (_single,),
        rounds=True,
    ),
    _row(
        "{out} = {x} * 2; {out}.requires_grad and {out}.register_hook(lambda g: g * 3)", (_single,)
    ),
    _row(
        "({x} * {x}).sum().backward(retain_graph=True)",
        (_single, lambda x: x.requires_grad),
        rounds=True,
    ),
    _row(
        "{out}, = torch.autograd.grad(({x} * {x}).sum(), [{x}])",
        (_single, lambda x: x.requires_grad),
        rounds=True,
    ),
    _row(
        "with torch.no_grad(): {x} -= 0.125 * {x}.grad",
        (_single, lambda x: x.is_leaf and x.grad is not None),
        rounds=True,
    ),
    _row("{x}.grad = None", (lambda x: x.is_leaf and x.grad is not None,)),
    _row(
        "o = torch.optim.SGD([{x}], lr=0.125, momentum=0.5); o.step(); o.step()",
        (_single, lambda x: x.is_leaf and x.grad is not None),
        rounds=True,
    ),
    _row(
        "o = torch.optim.AdamW([{x}], lr=0.125); o.step()",
        (_single, lambda x: x.is_leaf and x.grad is not None),
        rounds=True,
    ),
    _row(
        "with torch.autocast(device.type, torch.bfloat16): {out} = {x} @ {x}.mT",
        (_single, _deep(2)),
        rounds=True,
    ),
    _row("with torch.no_grad(): {out} = {x} * 2 + 1", (_single,)),
]

# Families, and how often a line is of each.
FAMILIES: tuple[tuple[int, list[Operator]], ...] = (
    (5, _POINTWISE),
    (2, _CASTS),
    (5, _VIEWS),
    (6, _CHANGES),
    (2, _INDEXING),
    (2, _REDUCTIONS),
    (3, _MANY),
    (1, _CONTROL),
    (3, _AUTOGRAD),
)
