# SPDX-License-Identifier: Apache-2.0
"""The dry run reports every mismatch between the overlay and a tree, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from third_party.torch.source import compiled_from, dry_run

BUILD = """
load("@torch_google//somewhere:rules.bzl", "configured_header", "torch_objects")
load("@rules_cc//cc:defs.bzl", "cc_library")
load(":build_variables.bzl", "core_sources")

_MORE = glob(["aten/**/*.cpp"], exclude = ["aten/test/**"])

configured_header(
    name = "config",
    out = "config.h",
    on = ["WITH_MORE"],
    template = "config.h.in",
    values = {"VERSION": "1"},
)

torch_objects(
    name = "core",
    srcs = core_sources + _MORE,
)

[
    cc_library(name = name, srcs = [name + ".cc"], hdrs = [":config"])
    for name in ["main"]
]
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for file, text in {
        "build_variables.bzl": 'core_sources = ["core.cpp"]\n',
        "config.h.in": '"@VERSION@"\n#cmakedefine WITH_MORE\n#cmakedefine NEVER\n',
        "core.cpp": "",
        "lists.bzl": 'ALONE = ["core.cpp"]\n',
        "main.cc": "",
        "aten/add.cpp": "",
        "aten/test/add_test.cpp": "",
        "overlay.BUILD": BUILD,
    }.items():
        (tmp_path / file).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / file).write_text(text)
    return tmp_path


def test_a_release_that_fits_has_no_faults(tree: Path) -> None:
    overlay = dry_run.Overlay(tree, tree / "overlay.BUILD", tree / "lists.bzl")
    assert overlay.resolve() == []
    assert overlay.files == {"core": ["core.cpp", "aten/add.cpp"], "main": ["main.cc"]}


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("build_variables.bzl", "other = []\n", "build_variables.bzl has no core_sources"),
        (
            "build_variables.bzl",
            'core_sources = ["core.cpp", "gone.cpp"]\n',
            "core: gone.cpp is not in the tree",
        ),
        ("config.h.in", "#cmakedefine WITH_MORE", "config: the template has no VERSION, which"),
        (
            "config.h.in",
            "${VERSION} ${NEW}\n#cmakedefine WITH_MORE",
            "config: the template wants NEW, which has no value",
        ),
        (
            "lists.bzl",
            'ALONE = ["old.cpp"]\n',
            "lists.bzl: ALONE has old.cpp, which no rule compiles",
        ),
    ],
)
def test_each_thing_that_differs_is_a_line(tree: Path, file: str, text: str, fault: str) -> None:
    (tree / file).write_text(text)
    faults = dry_run.Overlay(tree, tree / "overlay.BUILD", tree / "lists.bzl").resolve()
    assert "\n".join(faults).startswith(fault)


def test_a_folder_that_is_no_source_tree_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dry_run.main([str(tmp_path)]) == 2
    assert "has no build_variables.bzl. Give the root" in capsys.readouterr().err


def test_what_another_release_compiles_otherwise_is_said(tree: Path) -> None:
    overlay = dry_run.Overlay(tree, tree / "overlay.BUILD", tree / "lists.bzl")
    overlay.resolve()
    other = compiled_from.Sources(
        names=frozenset({"core.cpp", "main.cc", "sub.cpp"}), paths=frozenset({"aten/sub.cpp"})
    )
    assert overlay.differences(other) == ["not compiled: aten/add.cpp", "new: aten/sub.cpp"]
    gone = compiled_from.Sources(names=frozenset({"add.cpp", "main.cc"}), paths=frozenset())
    assert overlay.differences(gone) == [
        "not compiled: core.cpp",
        "lists.bzl: ALONE has core.cpp, which is not compiled",
    ]
