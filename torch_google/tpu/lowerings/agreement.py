# SPDX-License-Identifier: Apache-2.0
"""For tests: a lowering, jitted, against the same operator of torch on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.utils import _pytree as pytree

from torch_google.tpu.dtypes import to_jax
from torch_google.tpu.lowerings.table import find

jax.config.update("jax_enable_x64", True)

_TOLERANCE = {torch.bfloat16: (2e-2, 2e-2), torch.float16: (2e-3, 2e-3)}


def lowered(op: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """Run the lowering of `op` under jit on the tensors in the arguments: results, flattened."""
    entry = find(op)
    assert entry is not None, f"no lowering of {op.name()}"
    leaves, spec = pytree.tree_flatten((args, kwargs))
    where = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    arrays = [to_array(leaves[i]) for i in where]
    extra: dict[str, Any] = {"key": jax.random.key(0)} if entry.random else {}

    def call(arrays: list[jax.Array]) -> Any:
        filled = list(leaves)
        for i, array in zip(where, arrays, strict=True):
            filled[i] = array
        args, kwargs = pytree.tree_unflatten(filled, spec)
        return entry.function(*args, **kwargs, **extra)

    result = call(arrays) if entry.host_shape else jax.jit(call)(arrays)
    return pytree.tree_leaves(result, is_leaf=lambda x: x is None)


def assert_agrees(
    op: Any,
    *args: Any,
    rtol: float | None = None,
    atol: float | None = None,
    only: int | None = None,
    expect: Callable[..., Any] | None = None,
    **kwargs: Any,
) -> None:
    """Compare shapes and values of every result, or of the first `only`."""
    expected = pytree.tree_leaves((expect or op)(*args, **kwargs), is_leaf=lambda x: x is None)
    actual = lowered(op, *args, **kwargs)
    assert len(actual) == len(expected), f"{op.name()}: {len(actual)} results, not {len(expected)}"
    for ours, theirs in list(zip(actual, expected, strict=True))[:only]:
        if theirs is None:
            assert ours is None
            continue
        assert ours.shape == tuple(theirs.shape), f"{op.name()}: {ours.shape} != {theirs.shape}"
        tensor = to_tensor(ours.astype(to_jax(theirs.dtype)), theirs.dtype)
        wide = _TOLERANCE.get(theirs.dtype, (None, None))
        torch.testing.assert_close(
            tensor,
            theirs,
            rtol=rtol if rtol is not None else wide[0],
            atol=(atol if atol is not None else 0.0) if rtol is not None else wide[1],
            equal_nan=True,
            check_stride=False,
        )


def to_array(tensor: torch.Tensor) -> jax.Array:
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if tensor.dtype == torch.bfloat16:
        return jnp.asarray(tensor.view(torch.int16).numpy().view(to_jax(tensor.dtype)))
    return jnp.asarray(tensor.numpy())


def to_tensor(array: jax.Array, dtype: torch.dtype) -> torch.Tensor:
    host = np.array(array)
    if dtype == torch.bfloat16:
        return torch.from_numpy(host.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(host)
