# SPDX-License-Identifier: Apache-2.0
"""Converts tpu tensors to and from JAX arrays, and exports them to other libraries via DLPack."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch_google.tpu.interop.jax_arrays import from_jax as from_jax
    from torch_google.tpu.interop.jax_arrays import to_jax as to_jax

__all__ = ["from_jax", "to_jax"]


def __getattr__(name: str) -> Any:
    # Imported lazily, because jax_arrays.py loads JAX, which importing this package must not do.
    if name in __all__:
        from torch_google.tpu.interop import jax_arrays

        return getattr(jax_arrays, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
