# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest

from tools.presubmit.checks import sample_tree, size


def test_accepts_the_limit(tmp_path: pathlib.Path) -> None:
    assert [*size.find(sample_tree.write(tmp_path, {"a.py": "x\n" * size.MAX_LINES}))] == []


def test_rejects_one_line_more(tmp_path: pathlib.Path) -> None:
    (problem,) = size.find(sample_tree.write(tmp_path, {"a.py": "x\n" * (size.MAX_LINES + 1)}))
    assert (problem.path, problem.line) == ("a.py", size.MAX_LINES + 1)
    assert problem.what == "601 lines is more than 600"


@pytest.mark.parametrize(
    "path", ["a.patch", "requirements.lock", "golden.txt", "table.json", "a/TABLE.md"]
)
def test_data_may_be_long(tmp_path: pathlib.Path, path: str) -> None:
    assert [*size.find(sample_tree.write(tmp_path, {path: "x\n" * 5000}))] == []


def test_rejects_big_files_of_any_kind(tmp_path: pathlib.Path) -> None:
    (problem,) = size.find(sample_tree.write(tmp_path, {"w.bin": b"\xff" * (size.MAX_BYTES + 1)}))
    assert problem.next_step == "fetch it by hash instead of committing it"
