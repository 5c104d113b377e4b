# SPDX-License-Identifier: Apache-2.0
"""A program that observes its own startup. The tests run it in child processes.

It counts the garbage collections that scan torch's objects, and creates a file if the interpreter
runs its teardown at exit.
"""

from __future__ import annotations

import gc
import os
import pathlib
import sys
from typing import Any

SCANS: list[int] = []


def _watch(phase: str, info: dict[str, int]) -> None:
    torch_module = sys.modules.get("torch")
    if phase == "start" and torch_module is not None:
        names = vars(torch_module)
        generations = range(info["generation"] + 1)
        if any(value is names for number in generations for value in gc.get_objects(number)):
            SCANS.append(info["generation"])


gc.callbacks.append(_watch)

import torch  # noqa: E402  # the callback must count scans during this import
from torch.utils.data import Dataset  # noqa: E402


class TeardownMark:
    """An object whose finalizer creates a file."""

    def __init__(self, path: str) -> None:
        self._arguments = (path, os.O_CREAT | os.O_WRONLY)

    def __del__(self, create: Any = os.open) -> None:
        create(*self._arguments)


def allocate() -> None:
    """Allocate enough objects to trigger a garbage collection."""
    _ = [[] for _ in range(2_000)]


class Start(Dataset[torch.Tensor]):
    """A dataset with a single item, computed in the process that reads it.

    The item is the number of garbage collections that have scanned torch's objects in that process.
    """

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> torch.Tensor:
        sys.mark = TeardownMark(self.mark)  # type: ignore[attr-defined]  # cleared by the teardown
        allocate()
        return torch.tensor(len(SCANS))


def main() -> None:
    """Write to the file argv[1] how many garbage collections scanned torch's objects.

    If the interpreter runs its teardown, the teardown creates the file argv[2].
    """
    output, mark = sys.argv[1:]
    sys.mark = TeardownMark(mark)  # type: ignore[attr-defined]
    allocate()
    pathlib.Path(output).write_text(str(len(SCANS)))


if __name__ == "__main__":
    main()
