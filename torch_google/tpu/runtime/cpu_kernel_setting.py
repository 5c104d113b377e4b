# SPDX-License-Identifier: Apache-2.0
"""The setting that lets torch's CPU kernels run operators on the `cpu` platform.

A program takes about 50 ms to compile, and each new size needs one; a CPU kernel needs no
compilation. By default, operators run as programs, as on a TPU. After one of them has had new sizes
in five rounds, calls without a program run on CPU kernels (see ../eager/README.md).
Autograd's threads must use the same kernels as the forward pass, because the results of kernels and
programs may differ in the last bits. So the setting is process-wide.
"""

from __future__ import annotations

import os

from torch_google.tpu import _C
from torch_google.tpu.runtime import platform

_VARIABLE = "TORCH_TPU_CPU_KERNELS"


def set_cpu_kernels(enabled: bool | None) -> None:
    """Choose whether torch's CPU kernels may run operators.

    The `strict` and `fused` modes may then use them, as may torch.compile graphs whose sizes change
    (see compile/cpu_calls.py). If `enabled` is False, every operator runs as a compiled program, as
    on a TPU. None is the default: after any operator has had new sizes in five rounds (see
    ../eager/size_patterns.py), all calls that have no program run on CPU kernels. The environment
    variable TORCH_TPU_CPU_KERNELS, 0 or 1, sets the initial value. Raises RuntimeError if `enabled`
    is True on a platform other than `cpu`, where CPU kernels cannot read the buffers.
    """
    _C.start()
    if enabled and platform.name() != "cpu":
        raise RuntimeError(
            f"tpu: set_cpu_kernels(True) on the platform {platform.name()}: CPU kernels read host "
            "memory only. Set TORCH_TPU_PLATFORM=cpu, or leave the setting unchanged"
        )
    _C.set_cpu_kernel_use(_use_for(enabled))


def get_cpu_kernels() -> bool | None:
    """Return the setting of `set_cpu_kernels`. On a platform other than `cpu`, this is False."""
    _C.start()
    return _SETTINGS[_C.cpu_kernel_use()]


def choose() -> None:
    """Apply the environment variable TORCH_TPU_CPU_KERNELS when the device is initialized.

    Raises ValueError if the variable is neither 0 nor 1.
    """
    text = os.environ.get(_VARIABLE, "")
    if text not in ("", "0", "1"):
        raise ValueError(
            f"tpu: {_VARIABLE}={text}; use 1 for CPU kernels, or 0 for programs only. If it is "
            "not set, CPU kernels are used after sizes have kept changing"
        )
    _C.set_cpu_kernel_use(_use_for(text == "1" if text else None))


def _use_for(enabled: bool | None) -> _C.CpuKernelUse:
    if platform.name() != "cpu":
        return _C.CpuKernelUse.never
    return next(use for use, setting in _SETTINGS.items() if setting is enabled)


_SETTINGS = {
    _C.CpuKernelUse.never: False,
    _C.CpuKernelUse.changing_sizes: None,
    _C.CpuKernelUse.always: True,
}
