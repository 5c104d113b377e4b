# SPDX-License-Identifier: Apache-2.0
"""Test that Debian's Bazel has the workspace's modules, and that the lock file is complete."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tools.bazel import offline_modules

_WORKSPACE = Path(__file__).absolute().parents[2]


def test_every_dependency_of_the_workspace_is_served() -> None:
    text = (_WORKSPACE / "MODULE.bazel").read_text()
    named = set(re.findall(r'^bazel_dep\(\s*name = "([^"]+)"', text, re.MULTILINE))
    missing = named - set(offline_modules.DEBIAN_MODULES)
    assert named, "MODULE.bazel names no module: is this the right file?"
    assert not missing, f"MODULE.bazel: {missing} are not in Debian's Bazel; see offline_modules.py"


def test_the_lock_pins_every_dependency_of_the_workspace() -> None:
    """The lock file pins each module's MODULE.bazel and source.json, which lists source hashes."""
    text = (_WORKSPACE / "MODULE.bazel").read_text()
    named = re.findall(r'^bazel_dep\(name = "(.+?)", version = "(.+?)"\)$', text, re.MULTILINE)
    lock = json.loads((_WORKSPACE / "MODULE.bazel.lock").read_text())
    hashes = lock["registryFileHashes"]
    assert len(named) == text.count("\nbazel_dep(")
    for name, version in named:
        for file in ("MODULE.bazel", "source.json"):
            pinned = [
                hashes[url] for url in hashes if url.endswith(f"/modules/{name}/{version}/{file}")
            ]
            assert pinned, (
                f"MODULE.bazel.lock: no hash of {name} {version}'s {file}. Run an official Bazel"
            )
            assert re.fullmatch("[0-9a-f]{64}", pinned[0])


def test_the_lock_is_of_this_bazel() -> None:
    """Official Bazel releases silently ignore a lock file with a different format version."""
    version = (_WORKSPACE / ".bazelversion").read_text().strip()
    lock = json.loads((_WORKSPACE / "MODULE.bazel.lock").read_text())
    assert (version.rpartition(".")[0], lock["lockFileVersion"]) == ("7.7", 13)
    # Official Bazel releases require all of these keys.
    assert [*lock] == [
        "lockFileVersion",
        "registryFileHashes",
        "selectedYankedVersions",
        "moduleExtensions",
    ]


def test_the_rc_names_every_module_once() -> None:
    rc = offline_modules.rc(Path("/p/base"), registry=Path("/p/registry"))
    names = re.findall(r"^common --override_module=(\w+)=/p/base/", rc, re.MULTILINE)
    assert sorted(names) == sorted(offline_modules.module_directories(Path("/")))
    assert "common --registry=file:///p/registry\n" in rc


def test_stubs_are_where_the_rc_says(tmp_path: Path) -> None:
    offline_modules.write_stubs(tmp_path)
    for name, directory in offline_modules.module_directories(tmp_path).items():
        if name not in offline_modules.DEBIAN_MODULES:
            assert f'module(name = "{name}")' in (directory / "MODULE.bazel").read_text()
            assert (directory / "BUILD.bazel").exists()
