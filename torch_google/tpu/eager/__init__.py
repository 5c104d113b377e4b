# SPDX-License-Identifier: Apache-2.0
"""Eager execution of operator calls that miss the C++ recorder's cache.

Names are imported on first use, because importing them loads JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch_google.tpu.eager.compiled_op import CompiledOp
    from torch_google.tpu.eager.normalized_call import NewTensor

__all__ = ["CompiledOp", "NewTensor"]

_LAZY = {"CompiledOp": "compiled_op", "NewTensor": "normalized_call"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
