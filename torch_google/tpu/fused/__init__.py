# SPDX-License-Identifier: Apache-2.0
"""Fused mode, which compiles each recorded trace of operators as a single program.

Names are imported on first use, because importing them loads JAX.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch_google.tpu.fused.fusion import wait_for_compiles

__all__ = ["wait_for_compiles"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from torch_google.tpu.fused import fusion

    return getattr(fusion, name)
