# SPDX-License-Identifier: Apache-2.0
"""Tests how operator arguments are passed to lowerings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax.numpy as jnp
import pytest
import torch
from jax import Array

from torch_google.tpu import lowering

_LIBRARY = torch.library.Library("interpreter_test", "FRAGMENT")
_SCHEMA = "(Tensor x, float low=-1.0, float? high=None, *, bool negate=True) -> Tensor"


def _squashed(x: torch.Tensor, low: float, high: float | None, negate: bool) -> torch.Tensor:
    return x.clamp(low, high) * (-1 if negate else 1)


def _without_defaults(x: Array, low: float, high: float | None, negate: bool) -> Array:
    return jnp.clip(x, low, high) * (-1 if negate else 1)


def _with_wrong_defaults(
    x: Array, low: float = -5.0, high: float | None = 0.5, *, negate: bool = False
) -> Array:
    return _without_defaults(x, low, high, negate)


@pytest.fixture(name="x")
def _x() -> Iterator[torch.Tensor]:
    yield torch.tensor([-2.0, 0.25, 2.0])
    torch._dynamo.reset()


@pytest.mark.parametrize("function", [_without_defaults, _with_wrong_defaults])
def test_a_lowering_gets_the_schemas_defaults(
    function: Callable[..., Array], x: torch.Tensor
) -> None:
    name = f"squash{function.__name__}"
    _LIBRARY.define(name + _SCHEMA)
    _LIBRARY.impl(
        name,
        lambda x, low=-1.0, high=None, *, negate=True: _squashed(x, low, high, negate),
        "CompositeExplicitAutograd",
    )
    lowering(f"interpreter_test::{name}")(function)
    op = getattr(torch.ops.interpreter_test, name)
    expected = [op(x), op(x, 0.0), op(x, high=1.0), op(x, negate=False)]
    calls: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda t: op(t),
        lambda t: op(t, 0.0),
        lambda t: op(t, high=1.0),
        lambda t: op(t, negate=False),
    ]
    for call, result in zip(calls, expected, strict=True):
        compiled: Callable[[torch.Tensor], torch.Tensor] = torch.compile(call, backend="tpu")
        assert torch.equal(call(x.to("tpu")).cpu(), result)
        assert torch.equal(compiled(x.to("tpu")).cpu(), result)
