# SPDX-License-Identifier: Apache-2.0
"""Test support that compares a jitted lowering with torch's CPU kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.utils import _pytree as pytree

import torch_google.tpu.lowerings.families  # noqa: F401 (fills the table)
from torch_google.tpu.dtypes import to_jax, to_torch
from torch_google.tpu.lowerings.promotion import convert
from torch_google.tpu.lowerings.table import find, name_of

# In half precision, the CPU rounds intermediate values, whereas a lowering rounds only the result.
_HALF = {torch.bfloat16: 2e-2, torch.float16: 2e-3}

# Enable JAX's 64-bit types. The runtime does so when it initializes the backend, but these tests do
# not initialize it.
jax.config.update("jax_enable_x64", True)


def check(
    op: torch._ops.OpOverload,
    *args: Any,
    rtol: float | None = None,
    atol: float | None = None,
    only: int | None = None,
    expect: Callable[..., Any] | None = None,
    **kwargs: Any,
) -> None:
    """Check that a lowering gives the same shapes and values as torch's CPU kernel.

    The results are cast to torch's dtypes first. The default tolerances are torch's own for the
    dtype, except in half precision: there they are wider, and any error up to the CPU's largest
    error is accepted. If only `rtol` is given, `atol` is 0. `only` is the number of results to
    check; the default is all of them. `expect` is a function to compare with instead of `op`.
    """
    function = expect or op
    expected = _leaves(function(*args, **kwargs))
    actual = lowered(op, *args, **kwargs)
    assert len(actual) == len(expected), f"{op}: {len(actual)} results, not {len(expected)}"
    for position, (got, want) in list(enumerate(zip(actual, expected, strict=True)))[:only]:
        if want is None or got is None:
            assert got is want, f"{op}: {got} is not {want}"
            continue
        half = _HALF.get(want.dtype) if rtol is None and atol is None else None
        result, want = to_tensor(convert(got, want.dtype)), want.resolve_conj().resolve_neg()
        try:
            torch.testing.assert_close(
                result,
                want,
                rtol=half or rtol,
                atol=half or (0.0 if rtol is not None and atol is None else atol),
                equal_nan=True,
                check_stride=False,
                msg=lambda text: f"{op}{args}{kwargs}: {text}",
            )
        except AssertionError:
            if half is None or not _is_as_exact(
                result, want, _in_double(function, args, kwargs)[position]
            ):
                raise


def _in_double(function: Callable[..., Any], args: Any, kwargs: Any) -> list[Any]:
    def wider(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.dtype in _HALF:
            return leaf.double()
        return torch.float64 if isinstance(leaf, torch.dtype) and leaf in _HALF else leaf

    args, kwargs = pytree.tree_map(wider, (args, kwargs))
    return _leaves(function(*args, **kwargs))


def _is_as_exact(result: torch.Tensor, want: torch.Tensor, exact: torch.Tensor) -> bool:
    """Return whether each error in `result` is at most the largest error in `want`."""
    if result.shape != want.shape or not want.numel():
        return False
    error, allowed = ((value.double() - exact).abs() for value in (result, want))
    return bool((error <= allowed.max()).all())


def lowered(op: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> list[Any]:
    """Call the lowering. Return a flat list of its results, with the dtypes that JAX inferred."""
    entry = find(op)
    if entry is None:
        raise LookupError(f"{name_of(op)}: no lowering in the table")
    function = entry.function
    leaves, spec = pytree.tree_flatten((args, kwargs))
    where = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    extra: dict[str, Any] = {"key": jax.random.key(0)} if entry.random else {}

    def call(arrays: list[jax.Array]) -> Any:
        filled = list(leaves)
        for i, array in zip(where, arrays, strict=True):
            filled[i] = array
        args, kwargs = pytree.tree_unflatten(filled, spec)
        return function(*args, **kwargs, **extra)

    arrays = [to_array(leaves[i]) for i in where]
    return _leaves(call(arrays) if entry.on_host(args, kwargs) else jax.jit(call)(arrays))


def to_array(tensor: torch.Tensor) -> jax.Array:
    """Return an array with the bits of a CPU tensor."""
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if tensor.numel() == 0:
        return jnp.zeros(tuple(tensor.shape), to_jax(tensor.dtype))
    if tensor.dtype == torch.bool:
        return jnp.asarray(tensor.numpy())
    raw = tensor.reshape(-1).view(torch.uint8).numpy()
    return jnp.asarray(raw.view(to_jax(tensor.dtype)).reshape(tuple(tensor.shape)))


def to_tensor(array: jax.Array) -> torch.Tensor:
    """Return a CPU tensor with the bits of an array."""
    host = np.ascontiguousarray(np.asarray(array)).reshape(array.shape)
    if array.size == 0:
        return torch.empty(array.shape, dtype=to_torch(array.dtype))
    flat = torch.from_numpy(host.reshape(-1).view(np.uint8).copy())
    return flat.view(to_torch(array.dtype)).reshape(array.shape)


def _leaves(results: Any) -> list[Any]:
    return list(pytree.tree_leaves(results, is_leaf=lambda leaf: leaf is None))
