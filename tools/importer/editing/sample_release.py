# SPDX-License-Identifier: Apache-2.0
"""A small upstream tree with a patch series for tests, in a workspace on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.importer.editing.release import Release
from tools.importer.engine import Change, base_files, read_base, record_base, render_patch
from tools.importer.project import Project
from tools.importer.series import load_series
from tools.importer.snapshot import Blob, DictSnapshot

LABEL = "v1.0"
LINES = [f"line {number}\n" for number in range(1, 41)]
UPSTREAM: Mapping[str, Blob] = {
    "torch/a.py": Blob("".join(LINES).encode()),
    "torch/b.py": Blob(b"b = 1\nb = 2\nb = 3\n"),
    "torch/run": Blob(b"#!/bin/sh\nexit 0\n", "100755"),
    "torch/data.bin": Blob(b"\0\1\2"),
}


def header(subject: str) -> bytes:
    """Return a patch header that passes validation."""
    return (
        f"Subject: {subject}\nOwner: packaging\nReason: build\nUpstream: None yet\n"
        "Extension-point-considered: none\nTest: x_test.py::test_x\n"
    ).encode()


def with_lines(text: Blob, **lines: str) -> Blob:
    """Return `text` with some lines replaced: `with_lines(blob, line_3="three")`."""
    out = text.data.decode().splitlines(keepends=True)
    for key, line in lines.items():
        out[int(key.removeprefix("line_")) - 1] = f"{line}\n"
    return Blob("".join(out).encode(), text.mode)


def make_project(workspace: Path) -> Project:
    """Create a workspace whose build is pinned to a release other than LABEL."""
    pin = workspace / "third_party" / "torch" / "pin.json"
    pin.parent.mkdir(parents=True)
    pin.write_text(json.dumps({"tag": "v0.9", "tree_hash": "0" * 64}))
    series = workspace / "patches" / "torch"
    return Project(workspace, "torch", pin, series, pin.parent / "METADATA", {})


def make_release(
    project: Project, steps: Sequence[tuple[str, Mapping[str, Blob | None]]], *, context: int = 1
) -> Release:
    """Write a patch series to disk. Each step is a patch name and the new contents of its files."""
    directory = project.series_of(LABEL)
    directory.mkdir(parents=True)
    snapshot = DictSnapshot(LABEL, UPSTREAM)
    tree: dict[str, Blob | None] = dict(UPSTREAM)
    names = []
    for name, files in steps:
        changes = [Change(path, path, tree.get(path), blob) for path, blob in files.items()]
        data = render_patch(header(f"Patch {name}"), changes, context=context)
        (directory / f"{name}.patch").write_bytes(data)
        names.append(f"{name}.patch\n")
        tree.update(files)
    (directory / "series").write_text("# The order.\n" + "".join(names))
    for name, data in base_files(record_base(load_series(directory), snapshot)).items():
        (directory / name).write_bytes(data)
    return reopened(directory)


def reopened(directory: Path) -> Release:
    """Reload a patch series from disk."""
    return Release(
        LABEL,
        directory,
        load_series(directory),
        read_base(directory),
        DictSnapshot(LABEL, UPSTREAM),
    )
