# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.importer.engine import FileResult, Outcome, PatchResult, Resolved
from tools.importer.errors import UserError
from tools.importer.series import Patch
from tools.importer.session.conflict import (
    Unsettled,
    hide_conflict,
    read_resolution,
    show_conflict,
    stage_conflict,
    stop_of,
    unsettled,
)
from tools.importer.session.unfinished import Stop
from tools.importer.snapshot import EXECUTABLE, REGULAR, SYMLINK, Blob, DictSnapshot
from tools.importer.unified import parse_diff

_HEADER = {"Subject": "Do it", "Reason": "build", "Upstream": "None yet"}
_DIFF = b"""\
--- a/docs/title.rst
+++ b/docs/title.rst
@@ -1 +1,2 @@
 Title
+=======
"""
_MARKED = b"<<<<<<< upstream\none\n=======\ntwo\n>>>>>>> a.patch\n"
_NEW = DictSnapshot("v2", {"other.py": Blob(b"1\n")})


def file_result(path: str, after: Blob | None, before: Blob | None = None) -> FileResult:
    return FileResult(path, path, Outcome.CONFLICT, before, after, "both changed line 1")


def lay_out(state: Path, *files: FileResult, diff: bytes = _DIFF) -> Stop:
    digest = hashlib.sha256(diff).hexdigest()
    patch = Patch("a.patch", 1, _HEADER, parse_diff(diff), digest)
    result = PatchResult(patch, Outcome.CONFLICT, files, None, "")
    stage_conflict(state, result)
    show_conflict(state, result, Path("patches/torch/v1"))
    return stop_of(result)


def unsettled_lines(state: Path, stop: Stop) -> list[str]:
    return [str(each) for each in unsettled(state, stop)]


def test_markers_are_named_by_file_and_line(tmp_path: Path) -> None:
    stop = lay_out(
        tmp_path, file_result("a b.py", Blob(_MARKED)), file_result("c.py", Blob(_MARKED))
    )
    (tmp_path / "conflict/a b.py").write_bytes(b"one\n=======\r\ntwo\n")
    (tmp_path / "conflict/c.py").write_bytes(b"settled\n")
    assert unsettled_lines(tmp_path, stop) == ["a b.py:2: '=======' is still there"]
    (tmp_path / "conflict/a b.py").write_bytes(b"one\n")
    assert unsettled_lines(tmp_path, stop) == []
    assert read_resolution(tmp_path, stop, _NEW) == Resolved(
        {"a b.py": Blob(b"one\n"), "c.py": Blob(b"settled\n")}
    )


def test_lines_that_upstream_or_the_patch_have_are_no_markers(tmp_path: Path) -> None:
    before = Blob(b"Title\n>>>>>>> quoted mail\n")
    stop = lay_out(tmp_path, file_result("docs/title.rst", Blob(_MARKED), before))
    (tmp_path / "conflict/docs/title.rst").write_bytes(b"Title\n=======\n>>>>>>> quoted mail\n")
    assert unsettled_lines(tmp_path, stop) == []
    (tmp_path / "conflict/docs/title.rst").write_bytes(b"Title\n>>>>>>> a.patch\n")
    assert unsettled_lines(tmp_path, stop) == ["docs/title.rst:2: '>>>>>>> a.patch' is still there"]


def test_a_file_without_markers_has_to_be_touched(tmp_path: Path) -> None:
    stop = lay_out(tmp_path, file_result("data.bin", Blob(b"\0old")))
    assert unsettled(tmp_path, stop) == [
        Unsettled("data.bin", 0, "untouched (both changed line 1)")
    ]
    (tmp_path / "conflict/data.bin").write_bytes(b"\0<<<<<<< not a marker")
    assert unsettled_lines(tmp_path, stop) == []


def test_modes_and_links_come_back(tmp_path: Path) -> None:
    stop = lay_out(
        tmp_path,
        file_result("run.sh", Blob(_MARKED, EXECUTABLE)),
        file_result("plain", Blob(_MARKED)),
        file_result("link", Blob(b"old target", SYMLINK)),
        file_result("gone", Blob(_MARKED)),
    )
    conflict = tmp_path / "conflict"
    (conflict / "run.sh").write_bytes(b"x\n")
    (conflict / "plain").unlink()
    (conflict / "plain").symlink_to("run.sh")
    (conflict / "link").write_bytes(b"new target\n")
    (conflict / "gone").unlink()
    assert read_resolution(tmp_path, stop, _NEW).files == {
        "run.sh": Blob(b"x\n", EXECUTABLE),
        "plain": Blob(b"run.sh", SYMLINK),
        "link": Blob(b"new target", SYMLINK),
        "gone": None,
    }


def test_a_file_of_upstreams_may_be_added_and_no_other(tmp_path: Path) -> None:
    stop = lay_out(tmp_path, file_result("a.py", Blob(_MARKED)))
    (tmp_path / "conflict/a.py").write_bytes(b"x\n")
    (tmp_path / "conflict/other.py").write_bytes(b"2\n")
    files: Mapping[str, Blob | None] = read_resolution(tmp_path, stop, _NEW).files
    assert files["other.py"] == Blob(b"2\n", REGULAR)
    (tmp_path / "conflict/a.py.rej").write_bytes(b"")
    with pytest.raises(UserError, match=r"a\.py\.rej: v2 has no such file"):
        read_resolution(tmp_path, stop, _NEW)


@pytest.mark.parametrize("path", ["../out", "/etc/x", "a/../../out"])
def test_a_path_that_leads_out_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(UserError, match="not a plain path"):
        lay_out(tmp_path / "state", file_result(path, Blob(_MARKED)))
    assert not (tmp_path / "out").exists()


def test_the_summary_says_what_and_why(tmp_path: Path) -> None:
    lay_out(tmp_path, file_result("a.py", Blob(_MARKED)), file_result("gone.py", None))
    text = (tmp_path / "CONFLICT.md").read_text()
    for line in (
        "# a.patch: conflict",
        "Subject: Do it",
        "Reason: build",
        "Patch: patches/torch/v1/a.patch",
        "- `a.py`: conflict. both changed line 1",
        "- `gone.py` (no file there): conflict. both changed line 1",
    ):
        assert line in text.splitlines()
    hide_conflict(tmp_path)
    assert list(tmp_path.iterdir()) == []
