# SPDX-License-Identifier: Apache-2.0
"""The setting that lets torch's CPU kernels run operators on the `cpu` platform.

A program takes about 50 ms to compile, and each new size needs one; a CPU kernel needs no
compilation. So by default, a call runs on a CPU kernel first, and gets a program if it recurs (see
../eager/README.md).
Autograd's threads must use the same kernels as the forward pass, because the results of kernels and
programs may differ in the last bits. So the setting is process-wide.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from torch_google.tpu import _C
from torch_google.tpu.runtime import platform

_VARIABLE = "TORCH_TPU_CPU_KERNELS"


@dataclass
class _Choice:
    enabled: bool | None = None
    prefers_programs: bool = False


_choice = _Choice()


def set_cpu_kernels(enabled: bool | None) -> None:
    """Choose whether torch's CPU kernels may run operators.

    None is the default: calls without a program run on CPU kernels, and a call that recurs gets a
    program (see ../eager/README.md). True has the same effect in fused mode; in strict mode, every
    call that a kernel can run does so, even if it has a program. With None or True, torch.compile
    graphs whose sizes change use CPU kernels as well (see compile/cpu_calls.py). If `enabled` is
    False, everything runs as compiled programs, as on a TPU. The environment variable
    TORCH_TPU_CPU_KERNELS, 0 or 1, sets the initial value. Raises RuntimeError if `enabled` is True
    on a platform other than `cpu`, where CPU kernels cannot read the buffers.
    """
    _C.start()
    if enabled and platform.name() != "cpu":
        raise RuntimeError(
            f"tpu: set_cpu_kernels(True) on the platform {platform.name()}: CPU kernels read host "
            "memory only. Set TORCH_TPU_PLATFORM=cpu, or leave the setting unchanged"
        )
    _choice.enabled = enabled
    _apply()


def get_cpu_kernels() -> bool | None:
    """Return the setting of `set_cpu_kernels`. On a platform other than `cpu`, this is False."""
    _C.start()
    return _choice.enabled if platform.name() == "cpu" else False


def prefer_programs(enabled: bool) -> None:
    """Choose whether programs run instead of CPU kernels while the setting is None.

    `set_size_buckets` calls this.
    """
    _choice.prefers_programs = enabled
    if _C.started():
        _apply()


def choose() -> None:
    """Apply the environment variable TORCH_TPU_CPU_KERNELS when the device is initialized.

    Raises ValueError if the variable is neither 0 nor 1.
    """
    text = os.environ.get(_VARIABLE, "")
    if text not in ("", "0", "1"):
        raise ValueError(
            f"tpu: {_VARIABLE}={text}; use 1 for CPU kernels, or 0 for programs only. If it is "
            "not set, calls without a program run on CPU kernels until they recur"
        )
    _choice.enabled = text == "1" if text else None
    _apply()


def _apply() -> None:
    enabled = _choice.enabled
    if enabled is None:
        enabled = not _choice.prefers_programs
        kernels = _C.CpuKernelUse.until_recurring
    else:
        kernels = _C.CpuKernelUse.always
    usable = enabled and platform.name() == "cpu"
    _C.set_cpu_kernel_use(kernels if usable else _C.CpuKernelUse.never)
