# SPDX-License-Identifier: Apache-2.0
"""Finds out whether a test uses the device: whether it or one of its ranks allocates memory there.

Ranks are processes. A rank that has allocated memory creates the file that FILE names, and the
process that runs the test looks for it. A test whose ranks are killed before they end counts as a
test without use of the device.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

# The environment variable that names the file. If it is unset, nothing is reported.
FILE = "UPSTREAM_DEVICE_USE"


TPU, HOST = "tpu", "host"


@contextlib.contextmanager
def watch(use: list[str]) -> Iterator[None]:
    """Append TPU if this process, or a rank that ends in the block, uses the device; else HOST."""
    file = Path(os.environ[FILE])
    file.unlink(missing_ok=True)
    before = _allocations()
    try:
        yield
    finally:
        use.append(TPU if file.exists() or _allocations() != before else HOST)


@contextlib.contextmanager
def reporting() -> Iterator[None]:
    """Report the use of the device in this block to the process that runs the test."""
    before = _allocations()
    try:
        yield
    finally:
        if FILE in os.environ and _allocations() != before:
            Path(os.environ[FILE]).touch()


def _allocations() -> int:
    """Return the number of allocations on all devices since the process started."""
    from torch_google.tpu import _C

    if not _C.started():
        return 0
    import torch

    stats = (torch.tpu.memory_stats(index) for index in range(torch.tpu.device_count()))
    return sum(of_device["num_device_alloc"] for of_device in stats)
