# SPDX-License-Identifier: Apache-2.0
"""Compare saving and loading a tensor through gfile with doing so through open()."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import torch

from benchmarks.google3.row import Row, Sizes, Work, clear
from torch_google import gfile


def rows(sizes: Sizes) -> list[Row]:
    """Return the comparisons for a tensor of `sizes.bytes` bytes."""
    tensor = torch.arange(sizes.bytes // 8, dtype=torch.float64)

    def plain_save(directory: Path) -> None:
        with open(directory / "plain.pt", "wb") as file:
            torch.save(tensor, file)

    def synced_save(directory: Path) -> None:
        with open(directory / "aside.pt", "wb") as file:
            torch.save(tensor, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(directory / "aside.pt", directory / "plain.pt")

    def load(directory: Path) -> None:
        with open(directory / "plain.pt", "rb") as file:
            torch.load(file)

    def our_load(directory: Path) -> None:
        with gfile.Open(directory / "plain.pt", "rb") as file:
            torch.load(file)

    unsynced = _saving(tensor, sync=False)
    synced = _saving(tensor, sync=True)
    table = [
        Row("torch.save, not synced, beside open()", plain_save, unsynced, 1.05, _clear),
        Row("torch.save, beside open(), fsync, rename", synced_save, synced, 1.05, _clear),
        Row("torch.save, synced, beside open() alone", plain_save, synced, None, _clear),
        Row(
            "torch.load, beside open()",
            load,
            our_load,
            1.05,
            lambda folder: _ensure_saved(folder, tensor),
        ),
    ]
    # A patched build of torch saves to paths through gfile, so compare it with upstream's original
    # code.
    if find_spec("torch._seam") is not None:
        before, after = _by_path(tensor, hooked=False), _by_path(tensor, hooked=True)
        table.append(
            Row("torch.save to a path, not synced, with hooks", before, after, 1.05, _clear)
        )
    return table


def _clear(directory: Path) -> None:
    """Delete files from earlier rounds, and flush dirty pages to disk."""
    clear(directory)
    os.sync()


def _ensure_saved(directory: Path, tensor: torch.Tensor) -> None:
    if not (directory / "plain.pt").exists():
        torch.save(tensor, directory / "plain.pt")


def _by_path(tensor: torch.Tensor, *, hooked: bool) -> Work:
    from torch._seam import files

    from torch_google.gfile import answers

    def save(directory: Path) -> None:
        if hooked:
            files.writing.install(answers.writing)
        else:
            files.writing.restore()
        with gfile.configured(sync=False):
            torch.save(tensor, directory / "path.pt")

    return save


def _saving(tensor: torch.Tensor, *, sync: bool) -> Work:
    def save(directory: Path) -> None:
        with gfile.configured(sync=sync), gfile.Open(directory / "ours.pt", "wb") as file:
            torch.save(tensor, file)

    return save
