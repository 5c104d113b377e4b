# SPDX-License-Identifier: Apache-2.0
"""Test how dependencies are resolved, with a small index in apt's own format."""

from __future__ import annotations

from tools.bazel import package_index

_DUMP = """\
Package: tool
Version: 7.7.1+ds-8
Section: devel
Depends: libone1 (>= 1.0), compiler, gone | libtwo-abi5, docs
Pre-Depends: libzero:any

Package: libone1
Version: 1.2
Section: libs
Depends: libthree3 (= 3) | libtwo2, libone1-data

Package: libtwo2
Version: 2
Section: libs
Provides: libtwo-abi5 (= 5), libtwo
Depends: libone1

Package: libthree3
Version: 3
Section: libs

Package: libzero
Version: 0
Section: libs

Package: libalone9
Version: 9
Section: libs

Package: compiler
Version: 1
Section: devel
Depends: libalone9
"""


def test_follows_shared_libraries_only() -> None:
    index = package_index.parse(_DUMP, names=["tool"])
    # libtwo2 is found by its virtual name, and libthree3 as the first alternative. Compiler
    # packages are omitted.
    assert index.libraries_below(["tool"]) == ["libone1", "libthree3", "libtwo2", "libzero"]


def test_a_cycle_ends() -> None:
    index = package_index.parse(_DUMP, names=[])
    assert index.libraries_below(["libtwo2"]) == ["libone1", "libthree3"]


def test_keeps_wanted_packages_of_any_section() -> None:
    index = package_index.parse(_DUMP, names=["tool", "absent"])
    assert index.packages["tool"].version == "7.7.1+ds-8"
    assert "compiler" not in index.packages
    assert "absent" not in index.packages
