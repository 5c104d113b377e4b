# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest

from tools.presubmit.checks import names, sample_tree


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("tools/utils.py", "utils"),
        ("tools/util_test.py", "util"),
        ("tools/file_helpers.bzl", "file_helpers"),
        ("common/a.cc", "common"),
        ("tools/misc.tar.sh", "misc"),
        ("third_party/a/source/cpp/core/utils.cpp", "utils"),
    ],
)
def test_rejects(tmp_path: pathlib.Path, path: str, part: str) -> None:
    (problem,) = names.find(sample_tree.write(tmp_path, {path: ""}))
    assert problem.path == path
    assert problem.what.startswith(f"'{part}' says nothing")


@pytest.mark.parametrize(
    "path",
    [
        "third_party/torch/seam/_utils_internal.py",  # a name from upstream
        "third_party/a/source/cpp/core/util/flags.h",  # folder names from upstream
        "tools/commonmark.py",
        "patches/torch/fix-utils.patch",
        "docs/common.md",
    ],
)
def test_accepts(tmp_path: pathlib.Path, path: str) -> None:
    assert [*names.find(sample_tree.write(tmp_path, {path: ""}))] == []
