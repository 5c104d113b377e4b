# SPDX-License-Identifier: Apache-2.0
"""The `tpu` device of torch: PrivateUse1 on JAX and PJRT."""


def autoload() -> None:
    """Register the device with torch; `import torch` calls this through its entry point.

    Loads no JAX and starts no device. Where the device cannot be registered, one warning says why
    and torch works without it.
    """
    try:
        from torch_google.tpu.runtime import register

        register()
    except (ImportError, RuntimeError) as error:
        import warnings

        warnings.warn(
            f"tpu: torch goes on without the device: {error}. Install torch_google with the torch "
            "that it requires, and one backend of this kind only",
            stacklevel=2,
        )


# The last thing that torch does is to call autoload(), so that is there before torch is. And with
# torch loaded here, no module below this package is half imported when the device registers.
import torch  # noqa: E402, F401

__all__ = ["autoload"]
