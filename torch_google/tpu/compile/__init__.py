# SPDX-License-Identifier: Apache-2.0
"""The `tpu` backend for torch.compile, and export to StableHLO.

Each Dynamo graph becomes one program for the forward pass and one for the backward pass. The public
names are imported on first use, because most of the modules load JAX.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from torch_google.tpu.release import V2_6
from torch_google.tpu.runtime.jax_import import import_jax

if TYPE_CHECKING:
    from torch_google.tpu.compile.aot import backend
    from torch_google.tpu.compile.device_adapter import DeviceAdapter, TensorSpec, register_adapter
    from torch_google.tpu.compile.export import export_stablehlo
    from torch_google.tpu.compile.training_steps import compile_step

__all__ = [
    "DeviceAdapter",
    "TensorSpec",
    "backend",
    "compile_step",
    "export_stablehlo",
    "register_adapter",
]

_MODULES = {
    "DeviceAdapter": "device_adapter",
    "TensorSpec": "device_adapter",
    "backend": "aot_uncached" if V2_6 else "aot",
    "register_adapter": "device_adapter",
    "compile_step": "training_steps",
    "export_stablehlo": "export",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import_jax()
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
