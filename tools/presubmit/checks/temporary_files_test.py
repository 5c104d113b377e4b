# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest

from tools.presubmit.checks import sample_tree, temporary_files


@pytest.mark.parametrize(
    "path",
    [
        "torch_google/flags/.registry_v2.6.0.json.17194",
        "a/.x.pt.partial-0123456789ab-0",
        "a/golden.part",
        "a/x.py.orig",
        "a/x.py.rej",
        "a/x.py~",
        "a/.x.py.swp",
        "a/#x.py#",
    ],
)
def test_rejects_names(tmp_path: pathlib.Path, path: str) -> None:
    (problem,) = temporary_files.find(sample_tree.write(tmp_path, {path: "text"}))
    assert problem.path == path
    assert problem.what.endswith("is the name of a temporary file")


@pytest.mark.parametrize("path", ["a/data.json", "a/x.py", ".keep"])
def test_rejects_empty_files(tmp_path: pathlib.Path, path: str) -> None:
    (problem,) = temporary_files.find(sample_tree.write(tmp_path, {path: ""}))
    assert (problem.path, problem.what) == (path, "the file is empty")


def test_accepts(tmp_path: pathlib.Path) -> None:
    empty = dict.fromkeys(["a/__init__.py", "a/BUILD", "WORKSPACE", "a/py.typed"], "")
    full = dict.fromkeys([".bazelrc", ".clang-format", "a/v2.6.0.json", "patches/2.patch"], "text")
    assert [*temporary_files.find(sample_tree.write(tmp_path, empty | full))] == []
