# SPDX-License-Identifier: Apache-2.0
"""The `tpu` device of torch: PrivateUse1 on JAX and PJRT."""


def autoload() -> None:
    """Register the device with torch; `import torch` calls this through its entry point.

    Loads no JAX and starts no device.
    """
    from torch_google.tpu.runtime import register

    register()


__all__ = ["autoload"]
