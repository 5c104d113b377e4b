# SPDX-License-Identifier: Apache-2.0
"""The `tpu` device for torch: a PrivateUse1 device that runs on JAX and PJRT."""

from typing import Any


def autoload() -> None:
    """Register the device with torch. `import torch` calls this function through an entry point.

    Registration neither loads JAX nor initializes the device. If it fails, a warning gives the
    reason, and torch works without the device.
    """
    try:
        from torch_google.tpu.registration import register

        register()
    except (ImportError, RuntimeError) as error:
        import warnings

        warnings.warn(
            f"tpu: torch goes on without the device: {error}. Install torch_google with the torch "
            "that it requires, and one backend of this kind only",
            stacklevel=2,
        )


# `import torch` calls autoload() at its end, so autoload() must be defined first. Importing torch
# here ensures that no module of this package is partially imported when the device is registered.
import torch  # noqa: E402, F401

# The packages that define the public names. They load JAX, so a name is imported on first use.
_LAZY = {
    "compile_step": "compile",
    "custom_kernel": "kernels",
    "export_stablehlo": "compile",
    "from_jax": "interop",
    "load_stablehlo": "interop",
    "lowering": "lowerings",
    "to_jax": "interop",
}

__all__ = [
    "autoload",
    "compile_step",
    "custom_kernel",
    "estimate",
    "export_stablehlo",
    "from_jax",
    "load_stablehlo",
    "lowering",
    "to_jax",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "estimate":  # the package `estimate` is itself callable
        return import_module(f"{__name__}.estimate")
    if name in _LAZY:
        from torch_google.tpu.runtime.jax_import import import_jax

        import_jax()
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
