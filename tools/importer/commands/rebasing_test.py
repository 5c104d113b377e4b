# SPDX-License-Identifier: Apache-2.0
"""Edit, add and drop patches, with conflicts, killed commands and a full disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.importer.commands.sample_workspace import V1, SampleWorkspace, edited, make_workspace
from tools.importer.session.faults import disk_full_at, killed_at

A, B = V1["torch/a.py"], V1["torch/b.py"]
_ONE = edited(A, line_5="one")
_SERIES = {
    "first": {"torch/a.py": _ONE},
    "second": {"torch/b.py": edited(B, row_20="two")},
    "third": {"torch/a.py": edited(_ONE, line_25="three")},
}


@pytest.fixture(name="sample")
def _sample(tmp_path: Path) -> SampleWorkspace:
    return _laid_out(tmp_path)


def _laid_out(
    directory: Path, series: Mapping[str, Mapping[str, str]] = _SERIES
) -> SampleWorkspace:
    """Create a workspace with a patch series for v1 and a build pinned to a different release."""
    sample = make_workspace(directory)
    sample.series("v1", series)
    assert sample.run("--tag", "v1", "--origin", str(sample.upstream / "v1")) == 0
    (sample.root / "third_party/torch/pin.json").write_text(json.dumps({"tag": "v0"}))
    return sample


def _edit(sample: SampleWorkspace, patch: str) -> int:
    return sample.run("edit", patch, "--series", "v1")


def _desk(sample: SampleWorkspace, path: str) -> Path:
    return sample.root / ".import/edit/tree" / path


def _patch(sample: SampleWorkspace, name: str) -> str:
    return (sample.root / "patches/torch/v1" / f"{name}.patch").read_text()


def test_a_patch_in_the_middle_is_changed(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sample.files()
    assert _edit(sample, "first") == 0
    assert _desk(sample, "torch/a.py").read_text() == _ONE
    assert _desk(sample, "torch/b.py").read_text() == B
    assert sample.run("status") == 2
    assert "next: `import.py refresh`" in capsys.readouterr().out
    assert sample.run("refresh") == 4
    _desk(sample, "torch/a.py").write_text("zero\n" + _ONE)
    assert sample.run("refresh", "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "+zero" in shown
    assert "offset  third.patch" in shown
    assert sample.files() == before
    assert sample.run("refresh") == 0
    changed = {path for path, data in sample.files().items() if before.get(path) != data}
    assert changed == {"patches/torch/v1/first.patch", "patches/torch/v1/third.patch"}
    assert "+zero\n" in _patch(sample, "first")
    assert "@@ -23,7 +23,7 @@" in _patch(sample, "third")
    assert sample.at_rest()


def test_an_edit_undone_is_the_same_bytes(sample: SampleWorkspace) -> None:
    before = sample.files()
    for text in ("zero\n" + _ONE, _ONE):
        assert _edit(sample, "first.patch") == 0
        _desk(sample, "torch/a.py").write_text(text)
        assert sample.run("refresh") == 0
    assert sample.files() == before


def test_a_conflict_is_settled_and_the_rest_follows(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sample.files()
    assert _edit(sample, "first") == 0
    _desk(sample, "torch/a.py").write_text(edited(_ONE, line_25="mine"))
    assert sample.run("refresh") == 2
    assert sample.files() == before
    assert "v1 with first.patch" in sample.conflict("torch/a.py").read_text()
    assert sample.run("refresh") == 1
    assert "a patch after it waits for your decision" in capsys.readouterr().err
    assert sample.run("continue") == 2
    sample.conflict("torch/a.py").write_text(edited(_ONE, line_25="both"))
    assert sample.run("continue") == 0
    assert "-mine\n+both\n" in _patch(sample, "third")
    assert sample.at_rest()


def test_a_later_patch_can_be_skipped(sample: SampleWorkspace) -> None:
    assert _edit(sample, "first") == 0
    _desk(sample, "torch/a.py").write_text(edited(_ONE, line_25="mine"))
    assert sample.run("refresh") == 2
    assert sample.run("skip") == 0
    assert "third" not in (sample.root / "patches/torch/v1/series").read_text()


def test_abort_goes_back_to_the_desk_and_then_away(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sample.files()
    assert _edit(sample, "first") == 0
    _desk(sample, "torch/a.py").write_text(edited(_ONE, line_25="mine"))
    assert sample.run("refresh") == 2
    assert sample.run("abort") == 0
    assert "editing again: first.patch" in capsys.readouterr().out
    assert not (sample.root / ".import/conflict").exists()
    assert "mine" in _desk(sample, "torch/a.py").read_text()
    _desk(sample, "torch/a.py").write_text(edited(_ONE, line_35="mine"))
    assert sample.run("refresh") == 0
    assert sample.files() != before
    assert _edit(sample, "first") == 0
    assert sample.run("abort") == 0
    assert sample.at_rest()


def test_a_new_patch_waits_for_its_header(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    new = ["new", "Say four", "torch/b.py", "--after", "first", "--series", "v1", "--owner=us"]
    assert sample.run(*new) == 0
    tree = sample.root / ".import/edit/tree"
    assert [path.name for path in tree.rglob("*.py")] == ["b.py"]
    (tree / "torch/new.py").write_text("four\n")
    assert sample.run("refresh") == 1
    assert "import.py: .import/edit/header: header 'Reason' is not" in capsys.readouterr().err
    header = (sample.root / "patches/torch/v1/first.patch").read_text().split("\n\n")[0]
    (sample.root / ".import/edit/header").write_text(header)
    assert sample.run("refresh", "-m", "Say four, really") == 0
    index = (sample.root / "patches/torch/v1/series").read_text()
    assert index == "# Ours.\nfirst.patch\nsay-four.patch\nsecond.patch\nthird.patch\n"
    assert _patch(sample, "say-four").startswith("Subject: Say four, really\nOwner: us\n")
    assert "torch/b.py" not in _patch(sample, "say-four")


def test_drop_and_its_answer(sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert sample.run("--json", "drop", "second", "--series", "v1") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["files"]["deleted"] == ["patches/torch/v1/second.patch"]
    assert answer["outcome"] == "published"
    assert "b.py" not in (sample.root / "patches/torch/v1/base.json").read_text()


def test_a_base_recorded_anew_is_the_same(sample: SampleWorkspace) -> None:
    before = sample.files()
    assert sample.run("refresh", "--base", "--series", "v1") == 4
    (sample.root / "patches/torch/v1/first.patch").write_text(_patch(sample, "second"))
    assert sample.run("refresh", "--base", "--series", "v1") == 1
    path = "patches/torch/v1/base.json"
    assert sample.files()[path] == before[path]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["edit", "frist", "--series", "v1"], "no patch 'frist.patch'. Did you mean first.patch"),
        (["edit", "first", "--series", "v2"], "no series of v2. There are: v1"),
        (["edit", "first"], "no series of v0. There are: v1"),
        (["refresh"], "no patch is being edited. Begin with `import.py edit PATCH`"),
        (["refresh", "--series", "v1"], "--series needs --base"),
        (["edit", "first", "--series", "../torch/v1"], "no series of ../torch/v1"),
        (["drop", "fourth", "--series", "v1"], "no patch 'fourth.patch'"),
        (["new", "First", "--series", "v1"], "first.patch: already exists"),
        (
            ["new", "X", "torch/aa.py", "--series", "v1"],
            "no file 'torch/aa.py' in this origin. Did y",
        ),
        (["new", "X", "--first", "--after", "first", "--series", "v1"], "both --after and --first"),
        (["new", "X", "--name", "../x", "--series", "v1"], "'../x.patch' is not a patch name"),
    ],
)
def test_what_cannot_be_done(
    sample: SampleWorkspace,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    before = sample.files()
    assert sample.run(*arguments) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert sample.files() == before
    assert sample.at_rest()


def test_one_edit_at_a_time(sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]) -> None:
    assert _edit(sample, "first") == 0
    others = [["edit", "second"], ["new", "X"], ["drop", "second"], ["refresh", "--base"]]
    for arguments in others:
        capsys.readouterr()
        assert sample.run(*arguments, "--series", "v1") == 1
        assert "first.patch is being edited" in capsys.readouterr().err
    assert sample.run("continue") == 1
    assert sample.run("skip") == 1


def test_a_series_changed_under_an_edit_is_not_overwritten(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _edit(sample, "first") == 0
    _desk(sample, "torch/a.py").write_text("zero\n" + _ONE)
    file = sample.root / "patches/torch/v1/second.patch"
    file.write_text(file.read_text().replace("Owner: us", "Owner: them"))
    before = sample.files()
    assert sample.run("refresh") == 1
    assert "the series changed since first.patch was begun" in capsys.readouterr().err
    assert sample.files() == before


def test_killed_anywhere_a_refresh_is_old_or_new(tmp_path: Path) -> None:
    """Kill `refresh` at its first file system calls, then at every seventh call, and recover."""
    point, step, killed = 0, 1, True
    while killed:
        sample = _laid_out(tmp_path / str(point))
        old = sample.files()
        assert _edit(sample, "first") == 0
        _desk(sample, "torch/a.py").write_text("zero\n" + _ONE)
        killed = killed_at(point, lambda sample=sample: sample.run("refresh"))  # type: ignore[misc]
        sample.run("status")
        if (sample.root / ".import/state.json").exists():
            assert sample.files() == old
            assert sample.run("refresh") == 0
        now = sample.files()
        assert "+zero\n" in _patch(sample, "first")
        assert {path for path in now if now[path] != old.get(path)} == {
            "patches/torch/v1/first.patch",
            "patches/torch/v1/third.patch",
        }
        point += step
        step = 7 if point > 5 else 1


def test_killed_anywhere_an_edit_can_begin_again(tmp_path: Path) -> None:
    sample = _laid_out(tmp_path)
    before = sample.files()
    point, killed = 0, True
    while killed:
        killed = killed_at(point, lambda: _edit(sample, "first"))
        assert sample.files() == before
        if (sample.root / ".import/state.json").exists():
            assert _desk(sample, "torch/a.py").read_text() == _ONE
            assert sample.run("abort") == 0
        point += 1
    assert point > 10
    assert _edit(sample, "first") == 0
    assert _desk(sample, "torch/a.py").read_text() == _ONE


def test_a_full_disk_ends_an_edit_with_one_line(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sample.files()
    codes: list[int] = []
    for number in range(24):
        capsys.readouterr()
        assert disk_full_at(number, lambda: codes.append(_edit(sample, "first"))) is None
        assert sample.files() == before
        if codes[-1] == 3:
            (line,) = capsys.readouterr().err.splitlines()
            assert "No space left on device" in line, line
        elif (sample.root / ".import/state.json").exists():
            assert sample.run("abort") == 0
    assert set(codes) == {0, 3}


def test_a_rebase_remembers_a_settled_conflict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a conflict is resolved, the same edit of the same patches no longer stops at it."""
    patches = {"a": edited(A, line_3="a's three"), "b": edited(A, line_3="b's three")}
    sample = _laid_out(tmp_path, {name: {"torch/a.py": text} for name, text in patches.items()})
    directory = sample.root / "patches/torch/v1"
    series = {path: path.read_bytes() for path in directory.iterdir()}
    for code in (2, 0):
        assert _edit(sample, "a") == 0
        _desk(sample, "torch/a.py").write_text(edited(A, line_3="our three"))
        capsys.readouterr()
        assert sample.run("refresh") == code
        if code == 2:
            sample.conflict("torch/a.py").write_text(edited(A, line_3="everybody's three"))
            assert sample.run("continue") == 0
            assert "remembered: b.patch" in capsys.readouterr().out
            for path, data in series.items():
                path.write_bytes(data)
    out = capsys.readouterr().out
    assert "resolved  b.patch (as settled before: b.patch in v1 -> v1 with a.patch, " in out
    assert "reused: b.patch is settled as b.patch in v1 -> v1 with a.patch" in out
    assert "+everybody's three" in _patch(sample, "b")
