# SPDX-License-Identifier: Apache-2.0
"""The setting that lets torch's CPU kernels run operators on the `cpu` platform.

A program takes about 50 ms to compile, and each new size needs one; a CPU kernel needs no
compilation. Autograd's threads must use the same kernels as the forward pass, because the results
of kernels and programs may differ in the last bits. So the setting is process-wide.
"""

from __future__ import annotations

import os

from torch_google.tpu import _C
from torch_google.tpu.runtime import platform

_VARIABLE = "TORCH_TPU_CPU_KERNELS"


def set_cpu_kernels(enabled: bool) -> None:
    """Choose whether torch's CPU kernels may run operators.

    The `strict` and `fused` modes may then use them, as may torch.compile graphs whose sizes change
    (see compile/cpu_calls.py). By default they may not, and every operator runs as a compiled
    program, as on a TPU. The environment variable TORCH_TPU_CPU_KERNELS=1 enables CPU kernels at
    startup. Raises RuntimeError if `enabled` is True on a platform other than `cpu`, where CPU
    kernels cannot read the buffers.
    """
    _C.start()
    if enabled and platform.name() != "cpu":
        raise RuntimeError(
            f"tpu: set_cpu_kernels(True) on the platform {platform.name()}: CPU kernels read host "
            "memory only. Set TORCH_TPU_PLATFORM=cpu, or leave the setting unchanged"
        )
    _C.set_uses_cpu_kernels(enabled)


def get_cpu_kernels() -> bool:
    """Return whether operators may run with torch's CPU kernels."""
    _C.start()
    return _C.uses_cpu_kernels()


def choose() -> None:
    """Apply the environment variable TORCH_TPU_CPU_KERNELS when the device is initialized.

    Raises ValueError if the variable is neither 0 nor 1.
    """
    text = os.environ.get(_VARIABLE, "0")
    if text not in ("0", "1"):
        raise ValueError(f"tpu: {_VARIABLE}={text}; use 1 for CPU kernels, or 0 for programs only")
    _C.set_uses_cpu_kernels(text == "1" and platform.name() == "cpu")
