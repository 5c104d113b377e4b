# SPDX-License-Identifier: Apache-2.0
"""Detect whether a test uses tpu: whether the test or one of its ranks allocates memory on it.

Ranks are processes. On exit, a rank that has allocated memory creates the file that FILE names, and
the process that runs the test looks for that file. If all ranks are killed, nothing is reported and
the test counts as not using tpu.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

# The environment variable that names the file. If it is unset, ranks create no file.
FILE = "UPSTREAM_DEVICE_USE"


TPU, HOST = "tpu", "host"


@contextlib.contextmanager
def watch(use: list[str]) -> Iterator[None]:
    """Append TPU to `use` if the block uses tpu, else HOST.

    The block uses tpu if this process does, or if a rank does and exits before the block ends.
    """
    file = Path(os.environ[FILE])
    file.unlink(missing_ok=True)
    before = _allocations()
    try:
        yield
    finally:
        use.append(TPU if file.exists() or _allocations() != before else HOST)


@contextlib.contextmanager
def reporting() -> Iterator[None]:
    """If this block uses tpu, report that to the process that runs the test."""
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
