# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from tools.importer.engine import Change, render_patch
from tools.importer.series import load_series
from tools.importer.session.rewritten import HEADER, Rewrites
from tools.importer.snapshot import Blob, DictSnapshot


def test_files_that_no_rule_can_read_are_known_after_the_check(tmp_path: Path) -> None:
    change = Change("torch/a.py", "torch/a.py", Blob(b"x\n"), Blob(b"y\n"))
    keys = ("Subject", "Owner", "Reason", "Upstream", "Extension-point-considered", "Test")
    header = "".join(f"{key}: build\n" for key in keys) + f"{HEADER}: packed-resources\n"
    (tmp_path / "ruled.patch").write_bytes(render_patch(header.encode(), [change]))
    (tmp_path / "series").write_text("ruled.patch\n")
    files = {"torch/a.py": Blob(b"x\n"), "torch/b.py": Blob(b"open(__file__\n")}
    rewrites = Rewrites(DictSnapshot("v1", files))
    rewrites.check(load_series(tmp_path), {"torch/a.py": Blob(b"y\n")})
    assert rewrites.unread == ("torch/b.py",)
