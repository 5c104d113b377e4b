# SPDX-License-Identifier: Apache-2.0
"""A Python module with a kernel works with an NVIDIA driver, and raises an error without one.

Three targets run these tests: with the module as a file, packed in a PAR, and linked into the
interpreter.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from third_party.cuda.tests import _doubled


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def _gpus() -> int:
    return len(list(Path("/proc/driver/nvidia/gpus").glob("*")))


needs_gpu = pytest.mark.skipif(
    not (_has_driver() and _gpus()), reason="this machine has no NVIDIA driver or no GPU"
)


@pytest.mark.skipif(_has_driver(), reason="this machine has an NVIDIA driver")
def test_without_a_driver_only_the_call_fails() -> None:
    with pytest.raises(RuntimeError) as raised:
        _doubled.doubled([1.0])
    assert str(raised.value) == (
        "doubled: this machine has no NVIDIA driver (libcuda.so.1 cannot be loaded). Install driver"
        " 525 or newer and make libcuda.so.1 visible to this process, or keep the tensors on the"
        " CPU."
    )


@needs_gpu
def test_the_kernel_runs_on_the_gpu() -> None:
    values = [float(i) for i in range(-500, 500)]
    assert _doubled.doubled(values) == [2 * value for value in values]
    assert _doubled.doubled([]) == []
