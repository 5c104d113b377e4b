# SPDX-License-Identifier: Apache-2.0
"""Test a distribution's metadata by reading it back with importlib.metadata."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoints, PathDistribution
from pathlib import Path
from typing import Any

import pytest

from tools.wheel import metadata

_ABOUT: dict[str, Any] = {
    "name": "torch_hello",
    "version": "1.2.3",
    "summary": "Says hello.",
    "licence": "Apache-2.0",
    "python": "==3.11.*",
    "exact": ["absl-py", "torch"],
    "requires": ["etils[epath]"],
    "entry_points": ["torch.backends: hello = torch_hello:start", "a.b: x-y = one.two"],
}
_VERSIONS = {"absl_py": "2.5.1", "torch": "2.13.0"}


def _installed(folder: Path, about: dict[str, Any]) -> PathDistribution:
    distribution = metadata.described(about)
    info = folder / "torch_hello-1.2.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata.metadata(distribution, _VERSIONS))
    (info / "entry_points.txt").write_text(metadata.entry_points(distribution))
    return PathDistribution(info)


def test_it_reads_back(tmp_path: Path) -> None:
    read = _installed(tmp_path, _ABOUT)
    assert (read.name, read.version) == ("torch_hello", "1.2.3")
    assert read.metadata["Requires-Python"] == "==3.11.*"
    assert read.requires == ["absl-py==2.5.1", "etils[epath]", "torch==2.13.0"]
    points: EntryPoints = read.entry_points
    assert {(p.group, p.name, p.value) for p in points} == {
        ("torch.backends", "hello", "torch_hello:start"),
        ("a.b", "x-y", "one.two"),
    }


def test_the_workspace_pins_one_version_of_each_without_its_build() -> None:
    pins = {"version": "2.13.0+cpu"}
    lock = {"packages": {"jax": {"version": "0.1.2"}}}
    assert metadata.locked(lock, pins) == {"jax": "0.1.2", "torch": "2.13.0"}


def test_the_files_of_the_workspace_have_what_the_rules_read() -> None:
    root = Path(__file__).parents[2] / "third_party"
    lock = json.loads((root / "pypi" / "lock.json").read_text())
    pin = json.loads((root / "torch" / "pin.json").read_text())
    assert {"jax", "jaxlib", "numpy", "torch"} <= metadata.locked(lock, pin).keys()


@pytest.mark.parametrize("line", ["hello", "g: n", "g: n = a b", "g: = a:b", "g n = a:b"])
def test_a_line_that_is_no_entry_point_is_shown(line: str) -> None:
    with pytest.raises(metadata.MetadataError, match=f"found '{line}'; write 'group: name"):
        metadata.described({**_ABOUT, "entry_points": [line]})


def test_an_exact_requirement_must_be_locked() -> None:
    about = metadata.described({**_ABOUT, "exact": ["Foo-Bar"]})
    with pytest.raises(metadata.MetadataError, match="'Foo-Bar' is not locked; add it to"):
        metadata.metadata(about, _VERSIONS)
