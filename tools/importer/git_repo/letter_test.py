# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.importer.git_repo.git_fixture import ENVIRONMENT
from tools.importer.git_repo.letter import Letter, mbox
from tools.par.testing.budget import examples

DIFF = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-From a\r\n+From b\r\n"

_WORDS = st.sampled_from(
    ["From ", "From: a@b", "Subject: x", "---", "--- a", "diff -u", "Index: x", "-- ", "[PATCH] x",
     ">From x", "Date: now", "caf\u00e9", "", "  indented", "Content-Type: x", "8< -- >8"]
)  # fmt: skip


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(_WORDS, max_size=6))
def test_git_reads_every_mail_as_one_with_its_title_and_diff(
    tmp_path_factory: pytest.TempPathFactory, prose: list[str]
) -> None:
    directory = tmp_path_factory.mktemp("mail")
    letter = Letter("[x] A \u00fc title", "\n".join(prose), "t.py", "Owner: x", "us", DIFF)
    data = mbox(letter, with_headers=True)
    assert data == mbox(letter, with_headers=True)
    (directory / "mail").write_bytes(data)
    assert (
        _git(directory, "mailsplit", "--keep-cr", f"-o{directory}", str(directory / "mail"))
        == b"1\n"
    )
    with (directory / "0001").open("rb") as mail:
        output = _git(directory, "mailinfo", "-b", "--encoding=UTF-8", "msg", "patch", stdin=mail)
    assert output.splitlines()[:3] == [
        b"Author: us",
        b"Email: us@invalid",
        "Subject: [x] A \u00fc title".encode(),
    ]
    assert (directory / "patch").read_bytes().endswith(DIFF)
    message = (directory / "msg").read_text(encoding="utf-8")
    assert "Test plan:\nt.py" in message
    assert "Owner: x" in message
    for line in prose:
        assert line.strip() in message


def _git(directory: Path, *arguments: str, stdin: object = None) -> bytes:
    done = subprocess.run(
        ["git", *arguments],
        cwd=directory,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", **ENVIRONMENT},
        stdin=stdin,  # type: ignore[call-overload]
        capture_output=True,
        check=True,
    )
    out: bytes = done.stdout
    return out
