# SPDX-License-Identifier: Apache-2.0
"""Test that tools/import.py detects a change to any build input that Bazel lists."""

from __future__ import annotations

import importlib.util
from pathlib import Path, PurePosixPath

import pytest

_HERE = Path(__file__).parent
_LIST = _HERE / "import_inputs"


def _inputs() -> list[PurePosixPath]:
    """Return the build inputs in Bazel's list that are in this workspace."""
    if not _LIST.exists():
        pytest.skip("Bazel writes the list: `bazelw test //tools/importer:start_inputs_test`")
    labels = _LIST.read_text().split()
    return [
        PurePosixPath(label[2:].replace(":", "/", 1).lstrip("/"))
        for label in labels
        if label.startswith("//")
    ]


def test_every_input_of_the_build_is_watched() -> None:
    spec = importlib.util.spec_from_file_location("start", _HERE.parent / "import.py")
    assert spec is not None
    assert spec.loader is not None
    start = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(start)
    inputs = _inputs()
    assert PurePosixPath("tools/importer/commands/main.py") in inputs
    folders = {path.parts[0] for path in inputs if len(path.parts) > 1}
    assert folders <= {*start.FOLDERS}
    assert not {path.name for path in inputs} & start.WRITTEN
