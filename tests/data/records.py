# SPDX-License-Identifier: Apache-2.0
"""A dataset of fixed-size records in a file at any path that gfile supports."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

from torch_google import gfile

WIDTH = 8  # numbers in a record
_BYTES = WIDTH * 4


def write(path: str, count: int) -> None:
    """Write `count` records. Every number in a record is the record's index."""
    numbers = np.repeat(np.arange(count, dtype=np.int32), WIDTH)
    with gfile.Open(path, "wb") as file:
        file.write(numbers.tobytes())


class Records:
    """A map-style dataset, for torchdata and for grain.

    Each thread of each process opens the file separately, because readers that share an open file
    also share its position, and grain reads with several threads.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._count = gfile.Stat(path).length // _BYTES
        self._local = threading.local()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> np.ndarray:
        """Return the record at `index`, int32 [WIDTH]. The array is writable, as torch requires."""
        local = self._local
        if getattr(local, "pid", None) != os.getpid():
            local.file, local.pid = gfile.Open(self._path, "rb"), os.getpid()
        local.file.seek(int(index) * _BYTES)
        return np.frombuffer(bytearray(local.file.read(_BYTES)), np.int32)

    def __reduce__(self) -> tuple[Any, ...]:
        return Records, (self._path,)
