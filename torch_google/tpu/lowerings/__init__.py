# SPDX-License-Identifier: Apache-2.0
"""Lowerings of torch operators to JAX, one module per family of operators.

Importing this package loads neither the families nor JAX; the first table lookup loads all
families. A process that finds all its programs in the compile cache never performs a lookup.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from torch_google.tpu.lowerings.table import Lowering, foreign, is_collective, is_pinned, name_of

if TYPE_CHECKING:
    from torch_google.tpu.lowerings.checks import check_of
    from torch_google.tpu.lowerings.layouts import laid_out
    from torch_google.tpu.lowerings.table import find, lowering, names

__all__ = [
    "Lowering",
    "check_of",
    "find",
    "foreign",
    "is_collective",
    "is_pinned",
    "laid_out",
    "lowering",
    "name_of",
    "names",
]

# Maps each name to two modules: the one that populates the table before the name can be used, and
# the one that defines the name. `lowering` needs the full table to reject a second lowering for an
# operator.
_LAZY = {
    "check_of": ("value_checks", "checks"),
    "find": ("families", "table"),
    "laid_out": ("families", "layouts"),
    "lowering": ("families", "table"),
    "names": ("families", "table"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    table, module = _LAZY[name]
    import_module(f"{__name__}.{table}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
