# SPDX-License-Identifier: Apache-2.0
"""The setting that lets operators run on padded arrays once their sizes keep changing.

A call on padded arrays shares its program with other sizes (see ../eager/padded_op.py), but its
results may differ in the last bits from those of a program for its exact sizes. On the `cpu`
platform, where CPU kernels run calls with new sizes, padding is off by default.
"""

from __future__ import annotations

import os

from torch_google.tpu import _C
from torch_google.tpu.runtime import cpu_kernel_setting, platform

_VARIABLE = "TORCH_TPU_SIZE_BUCKETS"
_chosen: list[bool | None] = [None]


def set_size_buckets(enabled: bool | None) -> None:
    """Choose whether operators whose sizes keep changing run on padded arrays.

    None restores the default: on for the platforms `tpu` and `cuda`, off for `cpu`. The environment
    variable TORCH_TPU_SIZE_BUCKETS sets the initial value, as 0 or 1. The setting is process-wide,
    and affects calls that have no program yet. True disables CPU kernels, unless
    `set_cpu_kernels(True)` was called.
    """
    _chosen[0] = enabled
    cpu_kernel_setting.prefer_programs(bool(enabled))


def get_size_buckets() -> bool:
    """Return whether operators whose sizes keep changing run on padded arrays."""
    _C.start()
    chosen = _chosen[0]
    return platform.name() != "cpu" if chosen is None else chosen


def choose() -> None:
    """Apply the environment variable TORCH_TPU_SIZE_BUCKETS when the device is initialized.

    Raises ValueError if the variable is neither 0 nor 1.
    """
    text = os.environ.get(_VARIABLE, "")
    if text not in ("", "0", "1"):
        raise ValueError(
            f"tpu: {_VARIABLE}={text}; use 1 to pad sizes that keep changing, or 0 for a program "
            "for each set of sizes"
        )
    if text and _chosen[0] is None:
        set_size_buckets(text == "1")
