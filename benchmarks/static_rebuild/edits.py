# SPDX-License-Identifier: Apache-2.0
"""A table of typical edits, and a context manager that applies and reverts them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.importer.engine import Change, render_patch
from tools.importer.snapshot import Blob

_PATCH = "rebuild-benchmark.patch"
_HEADER = (
    b"Subject: Another word in a message\nOwner: benchmark\nReason: build\nUpstream: Never\n"
    b"Extension-point-considered: None: it is an edit to measure\nTest: benchmarks/static_rebuild\n"
)


class EditError(RuntimeError):
    """An edit does not apply or does not change the program. The message says what to do."""


class Way(enum.Enum):
    """The kind of file that an edit changes."""

    WORKSPACE = "a file of the workspace"
    TREE = "a local tree (--override_repository)"
    SERIES = "a patch of the series"


@dataclass(frozen=True)
class Edit:
    """An edit that inserts a word after `find`, which is part of an error message.

    `path` is relative to the workspace, or to the tree of torch's sources. `goal` is the maximum
    build time that we promise, in seconds, or None if we promise none.
    """

    name: str
    title: str
    way: Way
    path: str
    find: str
    goal: float | None


_CPP = ("aten/src/ATen/native/Linear.cpp", "must provide at least one operand")
_PYTHON = ("torch/nn/functional.py", "fractional_max_pool2d requires output_ratio")
_OURS = ("examples/training.py", "this program cannot compute there")

EDITS = {
    edit.name: edit
    for edit in (
        Edit("our_python", "a Python file of ours", Way.WORKSPACE, *_OURS, 5),
        Edit(
            "python",
            "a Python file of torch",
            Way.TREE,
            f"site/{_PYTHON[0]}",
            _PYTHON[1],
            5,
        ),
        Edit("cpp", "a C++ file of torch", Way.TREE, *_CPP, 60),
        Edit("python_patch", "a Python file of torch", Way.SERIES, *_PYTHON, None),
        Edit("cpp_patch", "a C++ file of torch", Way.SERIES, *_CPP, None),
    )
}


@dataclass(frozen=True)
class Places:
    """The directories that edits read and change.

    Edits change files in `workspace`, in `tree`, a copy of torch's sources, or in `series`, the
    patch series. They never change `source`, torch's sources as unpacked by the build.
    """

    workspace: Path
    tree: Path
    source: Path
    series: Path


@contextmanager
def editing(edit: Edit, places: Places) -> Iterator[Callable[[str], None]]:
    """Yield a function that applies the edit, inserting a given word. Revert the edit on exit."""
    if edit.way is Way.SERIES:
        with _patching(edit, places) as make:
            yield make
        return
    root = places.workspace if edit.way is Way.WORKSPACE else places.tree
    file = root / edit.path
    before = _text(edit, file)
    try:
        yield lambda word: _write(file, _edited(edit, before, word))
    finally:
        _write(file, before)


@contextmanager
def _patching(edit: Edit, places: Places) -> Iterator[Callable[[str], None]]:
    """Yield a function that applies the edit by adding a patch to the patch series."""
    index, patch = places.series / "series", places.series / _PATCH
    listed, before = index.read_text(), _text(edit, places.source / edit.path)

    def make(word: str) -> None:
        after = _edited(edit, before, word)
        change = Change(edit.path, edit.path, Blob(before.encode()), Blob(after.encode()))
        _write(patch, render_patch(_HEADER, [change]).decode())
        _write(index, f"{listed}{_PATCH}\n")

    try:
        yield make
    finally:
        _write(index, listed)
        patch.unlink(missing_ok=True)


def _text(edit: Edit, file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    if (count := text.count(edit.find)) != 1:
        raise EditError(
            f"{file}: has '{edit.find}' {count} times, an edit needs it once. "
            "Choose another place in benchmarks/static_rebuild/edits.py"
        )
    return text


def _edited(edit: Edit, text: str, word: str) -> str:
    return text.replace(edit.find, f"{edit.find} [{word}]")


def _write(file: Path, text: str) -> None:
    """Replace a file by rename; writing in place would also change its other hard links."""
    staged = file.with_name(f".{file.name}.edited")
    staged.write_text(text, encoding="utf-8")
    staged.replace(file)
