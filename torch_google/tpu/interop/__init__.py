# SPDX-License-Identifier: Apache-2.0
"""Converts tpu tensors to and from JAX arrays, and runs StableHLO on them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch_google.tpu.interop.jax_arrays import from_jax as from_jax
    from torch_google.tpu.interop.jax_arrays import to_jax as to_jax
    from torch_google.tpu.interop.stablehlo_program import load_stablehlo as load_stablehlo

# Maps each public name to the module of this package that defines it.
_MODULES = {
    "from_jax": "jax_arrays",
    "load_stablehlo": "stablehlo_program",
    "to_jax": "jax_arrays",
}

__all__ = ["from_jax", "load_stablehlo", "to_jax"]


def __getattr__(name: str) -> Any:
    # Import lazily, because these modules load JAX, and importing this package must not load it.
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
