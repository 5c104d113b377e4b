# SPDX-License-Identifier: Apache-2.0
"""The torch device `tpu`: a PrivateUse1 device that runs on JAX and PJRT."""

from typing import Any


def autoload() -> None:
    """Register the device with torch. `import torch` calls this through its entry point.

    Registration neither loads JAX nor starts the device. If registration fails, a warning gives the
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


# At the end of `import torch`, torch calls autoload(), so autoload() must be defined before this
# import. Importing torch here ensures that no module of this package is half imported when the
# device is registered.
import torch  # noqa: E402, F401

# Names that are imported on first use, because they load JAX, and the packages that define them.
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
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
