# SPDX-License-Identifier: Apache-2.0
"""Random functions on tensors with two varying sizes, for tests. A function is a list of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 (torch's own name for it)

_Function: TypeAlias = Callable[[torch.Tensor, torch.Tensor, int, int], torch.Tensor]


def _dim(x: torch.Tensor, number: int) -> int:
    return number % max(x.dim(), 1)


def _along(name: str) -> _Function:
    return lambda x, y, a, b: getattr(x, name)(dim=_dim(x, a), keepdim=bool(b % 2))


def _places(x: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.arange(x.shape[dim], device=x.device)


def _matmul(x: torch.Tensor, y: torch.Tensor, a: int, b: int) -> torch.Tensor:
    flat = x.flatten(0, max(x.dim() - 2, 0)) if x.dim() > 2 else x
    other = y.flatten(0, max(y.dim() - 2, 0)) if y.dim() > 2 else y
    if a % 3 == 2:
        return flat @ other
    return flat @ other.transpose(0, 1) if a % 3 else flat.transpose(0, 1) @ other


def _loss(x: torch.Tensor, y: torch.Tensor, a: int, b: int) -> torch.Tensor:
    if x.shape[-1] != 4:
        raise ValueError("no classes")
    rows = x.reshape(-1, 4)
    target = (torch.arange(rows.shape[0], device=x.device) + a) % 4
    return F.cross_entropy(rows, target, reduction=("mean", "sum", "none")[b % 3])


def _attention(x: torch.Tensor, y: torch.Tensor, a: int, b: int) -> torch.Tensor:
    if x.dim() != 3 or x.shape[-1] != 4:
        raise ValueError("no heads")
    heads = x.unflatten(-1, (2, 2)).transpose(1, 2)
    out = F.scaled_dot_product_attention(heads, heads, heads * 2, is_causal=bool(a % 2))
    return out.transpose(1, 2).flatten(2)


def _scatter(x: torch.Tensor, y: torch.Tensor, a: int, b: int) -> torch.Tensor:
    dim = _dim(x, a)
    index = _places(x, dim) // 2
    if b % 2:
        return torch.zeros_like(x).index_add(dim, index, x)
    shape = [1] * x.dim()
    shape[dim] = -1
    return torch.zeros_like(x).scatter_add(dim, index.view(shape).expand(x.shape), x)


def _put(x: torch.Tensor, y: torch.Tensor, a: int, b: int) -> torch.Tensor:
    index = torch.arange(x.shape[0], device=x.device)
    return torch.zeros_like(x).index_put((index - 1,), x, accumulate=True)


STEPS: dict[str, _Function] = {
    "tanh": lambda x, y, a, b: torch.tanh(x),
    "gelu": lambda x, y, a, b: F.gelu(x),
    "reciprocal": lambda x, y, a, b: 1 / (x * x + 0.5),
    "add": lambda x, y, a, b: x + y * 0.5,
    "where": lambda x, y, a, b: torch.where(x > y, x, y - 1),
    "by size": lambda x, y, a, b: x / x.shape[_dim(x, a)] + x.numel() * 0.001,
    "sum": _along("sum"),
    "mean": _along("mean"),
    "amax": _along("amax"),
    "amin": _along("amin"),
    "var": _along("var"),
    "logsumexp": _along("logsumexp"),
    "norm": _along("norm"),
    "max": lambda x, y, a, b: x.max(dim=_dim(x, a)).values,
    "argmax": lambda x, y, a, b: x.argmax(dim=_dim(x, a)) * 0.01,
    "sum of all": lambda x, y, a, b: x * 0.1 + (x.sum(), x.mean(), x.max(), x.std())[a % 4],
    "softmax": lambda x, y, a, b: x.softmax(_dim(x, a)),
    "log_softmax": lambda x, y, a, b: x.log_softmax(_dim(x, a)),
    "cumsum": lambda x, y, a, b: x.cumsum(_dim(x, a)) * 0.1,
    "transpose": lambda x, y, a, b: x.transpose(_dim(x, a), _dim(x, b)),
    "flatten": lambda x, y, a, b: x.flatten(_dim(x, a), min(_dim(x, a) + 1, x.dim() - 1)),
    "reshape": lambda x, y, a, b: x.reshape(-1, 4),
    "reshape as": lambda x, y, a, b: x.reshape(y.shape),
    "unsqueeze": lambda x, y, a, b: x.unsqueeze(_dim(x, a)),
    "squeeze": lambda x, y, a, b: x.squeeze(_dim(x, a)),
    "expand": lambda x, y, a, b: x.expand(3, *x.shape),
    "repeat": lambda x, y, a, b: x.repeat(2, *[1] * (x.dim() - 1)),
    "interleave": lambda x, y, a, b: x.repeat_interleave(2, 0),
    "select": lambda x, y, a, b: x.select(_dim(x, a), (0, 1, -1)[b % 3]),
    "slice": lambda x, y, a, b: x.narrow(_dim(x, a), 1, x.shape[_dim(x, a)] - 1 - b % 2),
    "halves": lambda x, y, a, b: x[: x.shape[0] // 2] if b % 2 else x[x.shape[0] // 2 :],
    "steps": lambda x, y, a, b: x[::2] if b % 2 else x[-2:],
    "flip": lambda x, y, a, b: x.flip(_dim(x, a)),
    "cat": lambda x, y, a, b: torch.cat([x, y * 2, x], _dim(x, a)),
    "stack": lambda x, y, a, b: torch.stack([x, y + x], _dim(x, a)),
    "pad": lambda x, y, a, b: F.pad(x, (a % 2, b % 3) * (1 + a % max(x.dim(), 1)), value=0.5),
    "tril": lambda x, y, a, b: x.tril(a - 1) if b % 2 else x.triu(a - 1),
    "matmul": _matmul,
    "bmm": lambda x, y, a, b: x.flatten(0, x.dim() - 3) @ x.flatten(0, x.dim() - 3).transpose(1, 2),
    "layer_norm": lambda x, y, a, b: F.layer_norm(x, x.shape[-1:]) if x.shape[-1] == 4 else x[0],
    "index": lambda x, y, a, b: x.index_select(_dim(x, a), _places(x, _dim(x, a)) // 2),
    "index from the end": lambda x, y, a, b: x[_places(x, 0) // 2 - 1],
    "gather": lambda x, y, a, b: x.gather(0, torch.zeros_like(x, dtype=torch.int64) + a % 2),
    "scatter": _scatter,
    "put": _put,
    "cross_entropy": _loss,
    "mse": lambda x, y, a, b: F.mse_loss(x, y, reduction=("mean", "sum", "none")[b % 3]),
    "attention": _attention,
    "arange": lambda x, y, a, b: x * torch.arange(x.shape[-1], device=x.device),
    "masked": lambda x, y, a, b: x.masked_fill(x > 0.5, 0.25),
}


@dataclass(frozen=True)
class GraphStep:
    """A step of a random function: STEPS[name](x, y, a, b).

    `first` and `second` select the operands x and y from the values computed so far. `a` and `b`
    are integers from which the step derives dimensions and options.
    """

    name: str
    first: int
    second: int
    a: int
    b: int

    def run(self, values: Sequence[torch.Tensor]) -> torch.Tensor:
        x = values[-1 - self.first % len(values)]
        y = values[-1 - self.second % len(values)]
        return STEPS[self.name](x, y, self.a, self.b)


def inputs(first: int, second: int) -> list[torch.Tensor]:
    """Return four tensors whose sizes are `first`, `second` and the constant 4."""
    generator = torch.Generator().manual_seed(first * 100 + second)
    shapes = [(first, second, 4), (second, 4), (first, 4), (first, second)]
    return [torch.randn(shape, generator=generator) for shape in shapes]


def possible(steps: Sequence[GraphStep]) -> list[GraphStep]:
    """Return the steps that succeed for all tested sizes."""
    pools = [inputs(11, 13), inputs(7, 5), inputs(2, 3)]
    valid = []
    for step in steps:
        try:
            results = [step.run(pool) for pool in pools]
        except (RuntimeError, IndexError, ValueError):
            continue
        if all(0 < one.numel() < 20000 and one.dim() < 5 for one in results):
            valid.append(step)
            for pool, one in zip(pools, results, strict=True):
                pool.append(one)
    return valid


def function(steps: Sequence[GraphStep]) -> Callable[..., Any]:
    """Return a function that takes the tensors of `inputs()` and returns the value of each step."""

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        values = list(tensors)
        for step in steps:
            values.append(step.run(values))
        # Multiply by 1 to copy the values. Otherwise, results could be views of the same tensor.
        return [value * 1 for value in values[len(tensors) :]]

    return run
