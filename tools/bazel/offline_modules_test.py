# SPDX-License-Identifier: Apache-2.0
"""The modules that Debian's Bazel gets are those that the workspace names."""

from __future__ import annotations

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
