# SPDX-License-Identifier: Apache-2.0
"""Tests of imports that stop at calls no rule covers, and continue once rewrites.txt lists them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.importer.commands import sample_workspace
from tools.importer.commands.sample_workspace import V1, SampleWorkspace, edited, make_workspace

_READS = "import torch\nwords = open(__file__)\n"
_REWRITTEN = "import torch\nwords = torch._utils_internal.open_resource(__file__)\n"
_ROW = edited(V1["torch/b.py"], row_20="row twenty")
_KNOWN = "packed-resources rewrite v1 torch/r.py x1\n"
_BINARY = "def load():\n    return open(__file__, 'rb').read()\n"
_LISTS = "import os\nfor name in os.listdir(os.path.dirname(__file__)):\n    print(name)\n"
_KEEP = "packed-resources keep torch/new.py::load --"


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SampleWorkspace:
    """Return a workspace with a series of two patches; a rule generates the first."""
    v1 = {**V1, "torch/r.py": _READS}
    monkeypatch.setattr(sample_workspace, "V1", v1)
    sample = make_workspace(tmp_path)
    series = sample.series("v1", {"ruled": {"torch/r.py": _REWRITTEN}, "row": {"torch/b.py": _ROW}})
    ruled = series / "ruled.patch"
    ruled.write_text(ruled.read_text().replace("\n", "\nRewrite: packed-resources\n", 1))
    rules_table(sample).write_text(_KNOWN)
    return sample


def rules_table(sample: SampleWorkspace) -> Path:
    return sample.root / "patches/torch/rewrites.txt"


def import_v2(sample: SampleWorkspace, *more: str, **files: str) -> int:
    """Import a release that also adds these files: `new="..."` is the content of torch/new.py."""
    own = {f"torch/{name}.py": text for name, text in files.items()}
    tree = sample.release("v2", {**V1, "torch/r.py": _READS, **own})
    return sample.run("--tag", "v2", "--origin", str(tree), *more)


def settle(sample: SampleWorkspace, reason: str) -> None:
    file = sample.conflict("rewrites.txt")
    lines = [x for x in file.read_text().split("\n") if x[:7] not in ("<<<<<<<", ">>>>>>>")]
    file.write_text("\n".join(line + reason if line.endswith("--") else line for line in lines))


def test_a_finding_stops_is_listed_with_the_others_and_settled(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    clash = edited(V1["torch/b.py"], row_20="row 20 of upstream")
    before = sample.files()
    assert import_v2(sample, new=_BINARY, b=clash, lists=_LISTS) == 2
    output = capsys.readouterr().out
    assert "conflict  rewrites.txt  (2 places that the rules do not know)" in output
    assert "1 left on a path from __file__: torch/new.py:2: open(__file__, 'rb')" in output
    assert "torch/lists.py:2: os.listdir(os.path.dirname(__file__))" in output
    assert "later: conflict  row.patch  (torch/b.py)" in output
    assert sample.files() == before

    assert sample.run("status") == 2
    assert "stopped at rewrites.txt: conflict" in capsys.readouterr().out
    assert sample.run("continue") == 2  # it stops again: the file still has conflict markers
    assert (
        ".import/conflict/rewrites.txt:2: '<<<<<<< packed-resources, v2" in capsys.readouterr().out
    )
    settle(sample, "")
    assert sample.run("continue") == 1
    assert "no reason after `--`. Say why" in capsys.readouterr().err
    settle(sample, " reads what it wrote")

    assert sample.run("continue") == 2
    assert "stopped at row.patch" in capsys.readouterr().out
    # The import publishes this file only at its end.
    assert rules_table(sample).read_text() == _KNOWN
    sample.conflict("torch/b.py").write_text(_ROW)
    assert sample.run("continue") == 0
    assert f"{_KEEP} reads what it wrote\n" in rules_table(sample).read_text()
    assert (sample.root / "patches/torch/v2/ruled.patch").exists()
    capsys.readouterr()
    again = ("--dry-run", "--overwrite", "--ask-again")
    assert import_v2(sample, *again, new=_BINARY, b=clash, lists=_LISTS) == 2
    assert "would stop at row.patch" in capsys.readouterr().out  # rewrites.txt now covers the calls


def test_a_call_that_is_to_be_rewritten_is_a_line_as_well(sample: SampleWorkspace) -> None:
    assert import_v2(sample, new=_READS) == 2
    assert "\npacked-resources rewrite v2 torch/new.py x1\n" in (
        sample.conflict("rewrites.txt").read_text()
    )
    settle(sample, "")
    assert sample.run("continue") == 0
    assert "torch/new.py" in (sample.root / "patches/torch/v2/ruled.patch").read_text()
    assert (
        rules_table(sample).read_text() == f"{_KNOWN}packed-resources rewrite v2 torch/new.py x1\n"
    )


def test_abort_and_a_dry_run_leave_the_data_as_it_is(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sample.files()
    assert import_v2(sample, "--dry-run", "--json", new=_BINARY) == 2
    result = json.loads(capsys.readouterr().out)
    assert (result["stopped"], result["waiting"]) == ("rewrites.txt", [])
    assert import_v2(sample, new=_BINARY) == 2
    settle(sample, " why")
    assert sample.run("abort") == 0
    assert sample.files() == before


def test_it_is_no_patch_that_may_be_skipped(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert import_v2(sample, new=_BINARY) == 2
    assert sample.run("skip") == 1
    assert "rewrites.txt is not a patch and cannot be skipped" in capsys.readouterr().err


def test_data_that_changed_meanwhile_is_not_written_over(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert import_v2(sample, new=_BINARY) == 2
    settle(sample, " why")
    rules_table(sample).write_text(f"{_KNOWN}# a word of somebody's\n")
    assert sample.run("continue") == 1
    assert "rewrites.txt: changed since the import began" in capsys.readouterr().err
    rules_table(sample).write_text(_KNOWN)
    assert sample.run("continue") == 0


def test_a_file_of_upstreams_is_not_taken_at_this_stop(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert import_v2(sample, new=_BINARY) == 2
    settle(sample, " why")
    sample.conflict("torch").mkdir()
    sample.conflict("torch/new.py").write_text("x = 1\n")
    assert sample.run("continue") == 1
    assert "the only file to resolve now" in capsys.readouterr().err
