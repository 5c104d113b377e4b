# SPDX-License-Identifier: Apache-2.0
"""Writes to tensors that overlap themselves or an input have the same outcome as on the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch

Case = Callable[["Tensors"], object]


class Tensors:
    """The tensors for the test cases, on one device."""

    def __init__(self, device: str) -> None:
        self.device = device

    def of(self, *sizes: int) -> torch.Tensor:
        return torch.ones(sizes, device=self.device)

    def once(self, *sizes: int) -> torch.Tensor:
        """Return a tensor whose elements all share one memory location."""
        return self.of(1).expand(*sizes)

    def index(self, *places: int) -> torch.Tensor:
        return torch.tensor(places or (2, 1, 0), device=self.device)

    def mask(self) -> torch.Tensor:
        return torch.tensor([True, False, True, True, False, False], device=self.device)


def written(name: str) -> Case:
    """Return a test case that writes to a tensor whose elements all share one memory location."""
    return lambda t: getattr(t.once(6), name)(0, t.index(), t.of(3))


def from_itself(name: str) -> Case:
    """Return a test case whose input shares a storage with the output tensor."""

    def case(t: Tensors) -> None:
        target = t.of(6)
        getattr(target, name)(0, t.index(), target[:3])

    return case


def by_itself(name: str) -> Case:
    """Return a test case in which the output tensor is also the index."""

    def case(t: Tensors) -> None:
        target = t.index()
        getattr(target, name)(0, target, target.clone())

    return case


def with_all_of_itself(name: str) -> Case:
    def case(t: Tensors) -> None:
        target = t.index()
        getattr(target, name)(0, target.clone(), target)

    return case


def put(make: Callable[[Tensors], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]) -> Case:
    def case(t: Tensors) -> None:
        target, index, values = make(t)
        target.index_put_((index,), values)

    return case


def of_one(make: Callable[[Tensors], torch.Tensor], op: Callable[..., object]) -> Case:
    """Return a test case that uses the same tensor for several arguments."""

    def case(t: Tensors) -> None:
        argument = make(t)
        op(t, argument)

    return case


def changed(name: str) -> Case:
    """Return a test case whose out= argument is the input."""

    def case(t: Tensors) -> None:
        target = t.of(6)
        getattr(torch, name)(target, 0, t.index(), t.of(3), out=target)

    return case


_CHANGING = ("index_add", "index_copy", "scatter", "scatter_add")


def activation(name: str) -> Case:
    return lambda t: getattr(torch.nn.functional, name)(t.once(6), inplace=True)


_ACTIVATIONS = ("elu", "hardsigmoid", "hardswish", "leaky_relu", "mish", "relu", "rrelu", "silu")
_MOVING = ("index_add_", "index_copy_", "scatter_", "scatter_add_")
CASES: dict[str, Case] = {
    **{f"{name} written": written(name) for name in _MOVING},
    **{f"{name} from itself": from_itself(name) for name in _MOVING},
    **{f"{name} by itself": by_itself(name) for name in _MOVING},
    **{f"{name} with itself": with_all_of_itself(name) for name in _MOVING},
    "index_reduce_": lambda t: t.once(6).index_reduce_(0, t.index(), t.of(3), "prod"),
    "scatter_reduce_": lambda t: t.once(6).scatter_reduce_(0, t.index(), t.of(3), "sum"),
    "scatter_ of a number": lambda t: t.once(6).scatter_(0, t.index(), 2.0),
    "index_fill_": lambda t: t.once(6).index_fill_(0, t.index(), 1.0),
    "index_fill_ by itself": of_one(lambda t: t.index(), lambda t, i: i.index_fill_(0, i, 0)),
    "index_put_": put(lambda t: (t.once(6), t.index(), t.of(3))),
    "index_put_ by itself": put(lambda t: (i := t.index(), i, t.index())),
    "index_put_ with itself": put(lambda t: (i := t.index(), t.index(), i)),
    "index_put_ from itself": put(lambda t: (x := t.of(6), t.index(), x[:3])),
    "index_put_ of its first": put(lambda t: (x := t.of(6), t.index(), x[0])),
    "a mask": lambda t: t.once(6).__setitem__(t.mask(), 1.0),
    "masked_fill_": lambda t: t.once(6).masked_fill_(t.mask(), 0.0),
    "masked_fill_ of the mask": of_one(
        lambda t: t.mask(), lambda t, m: m[1:].masked_fill_(m[:-1], False)
    ),
    "masked_scatter_": lambda t: t.once(6).masked_scatter_(t.mask(), t.of(3)),
    "masked_scatter_ of itself": of_one(
        lambda t: t.of(6), lambda t, x: x.masked_scatter_(t.mask(), x)
    ),
    "put_": lambda t: t.once(6).put_(t.index(), t.of(3)),
    "put_ from itself": of_one(lambda t: t.of(6), lambda t, x: x.put_(t.index(), x[:3])),
    "gather": of_one(lambda t: t.of(3), lambda t, x: torch.gather(x, 0, t.index(), out=x)),
    "take": of_one(lambda t: t.of(3), lambda t, x: torch.take(x, t.index(), out=x)),
    "cumsum": of_one(lambda t: t.of(3), lambda t, x: torch.cumsum(x, 0, out=x)),
    "mm": of_one(lambda t: t.of(3, 3), lambda t, x: torch.mm(x, x, out=x)),
    "stack": of_one(lambda t: t.of(6), lambda t, x: torch.stack([x[:3], x[3:]], out=x.view(2, 3))),
    "tril": of_one(lambda t: t.of(3, 3), lambda t, x: torch.tril(x, out=x)),
    "copy_ one on": of_one(lambda t: t.of(6), lambda t, x: x[1:].copy_(x[:-1])),
    "copy_ of itself": of_one(lambda t: t.of(6), lambda t, x: x.copy_(x)),
    "copy_ of its negative": of_one(lambda t: t.of(6), lambda t, x: torch._neg_view(x).copy_(x)),
    "add_ of itself": of_one(lambda t: t.of(6), lambda t, x: x.add_(x)),
    "add_": lambda t: t.once(6).add_(t.of(6)),
    "addcmul_": lambda t: t.once(6).addcmul_(t.of(6), t.of(6)),
    "addmm_": lambda t: t.once(3, 3).addmm_(t.of(3, 3), t.of(3, 3)),
    "clamp_": lambda t: t.once(6).clamp_(0),
    "cumsum_": lambda t: t.once(6).cumsum_(0),
    "cumprod_": lambda t: t.once(6).cumprod_(0),
    "fill_": lambda t: t.once(6).fill_(2),
    "normal_": lambda t: t.once(6).normal_(),
    "random_": lambda t: t.once(6).random_(0, 3),
    "uniform_": lambda t: t.once(6).uniform_(),
    "bernoulli_": lambda t: t.once(6).bernoulli_(0.5),
    "renorm_": lambda t: t.once(3, 3).renorm_(2, 0, 1.0),
    **{f"{name} in place": activation(name) for name in _ACTIVATIONS},
    "threshold_": lambda t: torch.nn.functional.threshold_(t.once(6), 1.0, 2.0),
    "softplus": lambda t: torch._C._nn.softplus(t.of(6), out=t.once(6)),
    "where": lambda t: torch.where(t.mask(), t.of(6), t.of(6), out=t.once(6)),
    "mean of itself": of_one(lambda t: t.of(6, 6), lambda t, x: torch.mean(x, 0, out=x[0])),
    "addmm_ of itself": of_one(
        lambda t: t.of(6, 6), lambda t, x: x[:3, :].addmm_(x[:3, :3], x[2:5])
    ),
    "renorm one on": of_one(
        lambda t: t.of(6, 6), lambda t, x: torch.renorm(x[:-1], 2, 0, 1.0, out=x[1:])
    ),
    "log_sigmoid one on": of_one(
        lambda t: t.of(6), lambda t, x: torch._C._nn.log_sigmoid(x[:-1], out=x[1:])
    ),
    **{f"{name} of the same": changed(name) for name in _CHANGING},
    "scatter one on": of_one(
        lambda t: t.of(6), lambda t, x: torch.scatter(x[:-1], 0, t.index(), t.of(3), out=x[1:])
    ),
    "mean": lambda t: torch.mean(t.of(6, 6), 0, out=t.once(6)),
    "sum": lambda t: torch.sum(t.of(6, 6), 0, out=t.once(6)),
    "gcd_": lambda t: t.index().new_ones(1).expand(3).gcd_(t.index()),
    "shift by itself": of_one(lambda t: t.index(), lambda t, i: i[1:].__ilshift__(i[:-1])),
    "tril_": lambda t: t.once(3, 3).tril_(),
}


@pytest.mark.parametrize("name", CASES)
def test_is_refused_or_warned_of_where_the_cpu_does(name: str) -> None:
    assert _outcome(CASES[name], "tpu") == _outcome(CASES[name], "cpu")


def _outcome(case: Case, device: str) -> tuple[str, bool]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            case(Tensors(device))
        except RuntimeError as error:
            return str(error)[:60], _is_warned(caught)
    return "", _is_warned(caught)


def _is_warned(caught: list[warnings.WarningMessage]) -> bool:
    return any("on expanded tensors is deprecated" in str(warning.message) for warning in caught)
