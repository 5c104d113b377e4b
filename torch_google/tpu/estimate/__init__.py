# SPDX-License-Identifier: Apache-2.0
"""Estimates memory use and run time on TPUs, without needing a TPU.

The package is callable: `torch_google.tpu.estimate(model, inputs, topology="v5e:4x4")`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch_google.tpu.estimate.estimation import estimate, fill_for_cpu
    from torch_google.tpu.estimate.filling import FilledCache
    from torch_google.tpu.estimate.report import Report

__all__ = ["FilledCache", "Report", "estimate", "fill_for_cpu"]

_MODULES = {
    "FilledCache": "filling",
    "Report": "report",
    "estimate": "estimation",
    "fill_for_cpu": "estimation",
}


class _Callable(ModuleType):
    """A module type that makes the package callable.

    `torch_google.tpu.estimate` is both the function and the package that `python -m` runs.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Report:
        function: Callable[..., Report] = __getattr__("estimate")
        return function(*args, **kwargs)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from torch_google.tpu.runtime.jax_import import import_jax

    import_jax()
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


sys.modules[__name__].__class__ = _Callable
