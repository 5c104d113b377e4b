# SPDX-License-Identifier: Apache-2.0
"""A small table of lowerings for tests that must not depend on the full table."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from torch_google.tpu.lowerings import lowering, table


@pytest.fixture
def small_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the table of lowerings with one that has only a few operators."""
    jax.config.update("jax_enable_x64", True)
    monkeypatch.setattr(table, "_TABLE", {})
    lowering("aten::add.Tensor")(lambda a, b, alpha=1: a + b * alpha)
    lowering("aten::mul.Tensor")(jnp.multiply)
    lowering("aten::div.Tensor")(jnp.true_divide)
    lowering("aten::full_like")(lambda a, value, dtype=None: jnp.full_like(a, value))
    lowering("aten::clone")(lambda a: a)
    lowering("aten::sum.dim_IntList")(lambda a, dim, keepdim=False, dtype=None: a.sum(tuple(dim)))
    lowering("aten::max.dim")(lambda a, dim, keepdim=False: (a.max(dim), a.argmax(dim)))
    lowering("aten::mm")(lambda a, b: a)
    lowering("aten::nonzero", host_shape=True)(lambda a: jnp.stack(jnp.nonzero(a), -1))
    lowering("aten::rand", random=True)(
        lambda size, dtype=None, *, key: jax.random.uniform(key, tuple(size))
    )
