# SPDX-License-Identifier: Apache-2.0
"""Run `undo` after each kind of command, even one that was killed, and after later edits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tools.importer.commands.sample_workspace import V1, SampleWorkspace, edited, make_workspace
from tools.importer.session.faults import killed_at

A, B = V1["torch/a.py"], V1["torch/b.py"]
SERIES = {
    "first": {"torch/a.py": edited(A, line_3="line three")},
    "second": {"torch/b.py": edited(B, row_20="row twenty")},
    "third": {"torch/a.py": edited(A, line_3="line three", line_30="line thirty")},
}
CLASHES = {
    **V1,
    "torch/b.py": edited(B, row_20="row 20 of upstream"),
    "torch/a.py": edited(A, line_30="line 30 of upstream"),
}
FIRST = edited(B, row_20="row 20 of both")
SECOND = edited(A, line_3="line three", line_30="line 30 of both")


@pytest.fixture(name="sample")
def _sample(tmp_path: Path) -> SampleWorkspace:
    return laid_out(tmp_path)


def laid_out(directory: Path) -> SampleWorkspace:
    sample = make_workspace(directory)
    sample.series("v1", SERIES)
    assert sample.run("--tag", "v1", "--origin", str(sample.upstream / "v1")) == 0
    (sample.root / "third_party/torch/pin.json").write_text(json.dumps({"tag": "v0"}))
    sample.release("v2", CLASHES)
    shutil.rmtree(sample.root / ".import")
    return sample


def import_(sample: SampleWorkspace, label: str = "v2") -> int:
    origin = str(sample.upstream / label)
    return sample.run("--tag", label, "--origin", origin, "--from", "v1")


def state_of(sample: SampleWorkspace) -> dict[str, bytes]:
    """Return the contents of the unfinished command's files."""
    names = ("state.json", "CONFLICT.md", "conflict", "edit")
    files = [path for name in names for path in (sample.root / ".import").glob(f"{name}*")]
    files += [path for top in list(files) for path in top.rglob("*")]
    return {
        path.relative_to(sample.root).as_posix(): path.read_bytes()
        for path in files
        if path.is_file() and ".git" not in path.parts
    }


def test_nothing_to_undo(sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]) -> None:
    assert sample.run("undo") == 4
    assert "nothing to undo" in capsys.readouterr().out


def test_an_import_is_undone(sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]) -> None:
    before = sample.files()
    sample.release("v3", {**V1, "torch/a.py": "new\n" + A})
    assert import_(sample, "v3") == 0
    after = sample.files()
    assert sample.run("undo", "--dry-run") == 0
    assert sample.files() == after
    capsys.readouterr()
    assert sample.run("undo") == 0
    out = capsys.readouterr().out
    assert "undone: the import of v3" in out
    assert "deleted  patches/torch/v3/series" in out
    assert sample.files() == before
    assert sample.run("undo") == 4
    assert import_(sample, "v3") == 0
    assert sample.files() == after


def test_a_stop_and_each_decision_are_undone(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    """Undo the import's file changes, then both conflict resolutions, then the import's start."""
    before = sample.files()
    assert import_(sample) == 2
    stopped = state_of(sample)
    sample.conflict("torch/b.py").write_text(FIRST)
    resolved = state_of(sample)
    assert sample.run("continue") == 2
    second = state_of(sample)
    assert sample.run("undo") == 0
    assert "waits at second.patch again, with your files" in capsys.readouterr().out
    assert state_of(sample) == resolved
    assert sample.run("continue") == 2
    assert state_of(sample) == second
    sample.conflict("torch/a.py").write_text(SECOND)
    last = state_of(sample)
    assert sample.run("continue") == 0
    published = sample.files()
    assert sample.run("undo") == 0
    assert "waits again, with your files" in capsys.readouterr().out
    assert (sample.files(), state_of(sample)) == (before, last)
    assert sample.run("undo") == 1
    assert "you have changed torch/a.py" in capsys.readouterr().err
    assert sample.run("continue") == 0
    assert sample.files() == published
    assert sample.run("undo") == 0
    sample.conflict("torch/a.py").write_bytes(second[".import/conflict/torch/a.py"])
    assert sample.run("undo") == 0
    assert state_of(sample) == resolved
    sample.conflict("torch/b.py").write_bytes(stopped[".import/conflict/torch/b.py"])
    assert sample.run("undo") == 0
    assert sample.files() == before
    assert sample.at_rest()


def test_a_skip_is_undone(sample: SampleWorkspace) -> None:
    assert import_(sample) == 2
    stopped = state_of(sample)
    assert sample.run("skip") == 2
    assert sample.run("undo") == 0
    assert state_of(sample) == stopped


def test_only_one_decision_is_kept(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.release("v2", {**CLASHES, "torch/a.py": edited(A, line_3="x", line_30="y")})
    assert import_(sample) == 2
    assert sample.run("skip") == 2
    assert sample.run("skip") == 2
    assert sample.run("undo") == 0
    assert sample.run("undo") == 1
    assert "only one decision can be undone" in capsys.readouterr().err


def test_edit_and_refresh_are_undone(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sample.files()
    edit = ("edit", "first", "--series", "v1")
    assert sample.run(*edit) == 0
    assert sample.run("undo") == 0
    assert sample.at_rest()
    assert sample.run(*edit) == 0
    file = sample.root / ".import/edit/tree/torch/a.py"
    file.write_text("zero\n" + file.read_text())
    desk = state_of(sample)
    assert sample.run("undo") == 1
    assert "the edit of first.patch cannot be undone: you have changed torch/a.py" in (
        capsys.readouterr().err
    )
    assert sample.run("refresh") == 0
    assert sample.files() != before
    assert sample.run("undo") == 0
    assert (sample.files(), state_of(sample)) == (before, desk)
    assert sample.run("refresh") == 0
    (sample.root / ".import/edit").mkdir(exist_ok=True)  # an editor may leave this directory
    assert sample.run("undo") == 0
    assert state_of(sample) == desk
    assert sample.run("abort") == 0


def test_a_header_that_was_edited_is_not_discarded(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sample.run("new", "Say more", "--series", "v1") == 0
    header = sample.root / ".import/edit/header"
    header.write_text(header.read_text().replace("Subject: Say more", "Subject: Say much more"))
    assert sample.run("undo") == 1
    assert "you have changed header" in capsys.readouterr().err
    header.write_text(header.read_text().replace("much ", ""))
    assert sample.run("undo") == 0
    assert sample.at_rest()


def test_a_refresh_that_stopped_goes_back_to_the_edit(sample: SampleWorkspace) -> None:
    assert sample.run("edit", "first", "--series", "v1") == 0
    file = sample.root / ".import/edit/tree/torch/a.py"
    file.write_text(edited(file.read_text(), line_30="another 30"))
    desk = state_of(sample)
    assert sample.run("refresh") == 2
    assert sample.run("undo") == 0
    assert state_of(sample) == desk


def test_drop_and_new_are_undone(sample: SampleWorkspace) -> None:
    before = sample.files()
    assert sample.run("drop", "second", "--series", "v1") == 0
    assert sample.files() != before
    assert sample.run("undo") == 0
    assert sample.files() == before
    header = ("--owner", "us", "--reason", "build", "--upstream", "None yet")
    more = ("--extension-point", "None", "--test", "t.py::t", "--series", "v1")
    assert sample.run("new", "Say more", "torch/b.py", *header, *more) == 0
    (sample.root / ".import/edit/tree/torch/c.py").write_text("more\n")
    assert sample.run("refresh") == 0
    assert (sample.root / "patches/torch/v1/say-more.patch").exists()
    assert sample.run("undo") == 0
    assert sample.files() == before
    assert sample.run("abort") == 0


@pytest.mark.parametrize("path", ["patches/torch/v3/first.patch", "third_party/torch/licence.json"])
def test_an_edit_made_since_is_never_overwritten(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    sample.release("v3", {**V1, "torch/a.py": "new\n" + A, "LICENSE": "Do.\n"})
    origin = str(sample.upstream / "v3")
    arguments = ("--tag", "v3", "--origin", origin, "--from", "v1", "--acknowledge-licence")
    assert sample.run(*arguments) == 0
    file = sample.root / path
    file.write_bytes(file.read_bytes() + b"\n")
    before = sample.files()
    assert sample.run("undo", "--dry-run") == 0
    assert f"cannot be undone, {path} changed since" in capsys.readouterr().out
    assert sample.run("undo") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"the import of v3 cannot be undone: {path} changed since" in line
    assert sample.files() == before


def test_killed_at_any_call_undo_of_a_decision_is_finished_or_not_begun(tmp_path: Path) -> None:
    begun = laid_out(tmp_path / "begun")
    assert import_(begun) == 2
    begun.conflict("torch/b.py").write_text(FIRST)
    resolved = state_of(begun)
    assert begun.run("continue") == 2
    second = state_of(begun)
    for number in range(1000):
        root = tmp_path / str(number)
        shutil.copytree(begun.root, root, symlinks=True)
        sample = SampleWorkspace(root, begun.upstream)
        killed = killed_at(number, lambda each=sample: each.run("undo"))  # type: ignore[misc]
        assert sample.run("status") == 2
        assert state_of(sample) in (resolved, second), number
        if state_of(sample) == second:
            assert sample.run("undo") == 0
        assert state_of(sample) == resolved
        shutil.rmtree(root)
        if not killed:
            assert number > 8
            return
    raise AssertionError("undo never ended")


@pytest.mark.full
def test_killed_at_any_call_a_decision_can_be_undone(tmp_path: Path) -> None:
    """A `continue` killed at any point before its next stop can still be undone or repeated."""
    begun = laid_out(tmp_path / "begun")
    assert import_(begun) == 2
    begun.conflict("torch/b.py").write_text(FIRST)
    resolved = state_of(begun)
    point, step, killed = 0, 1, True
    while killed:
        root = tmp_path / str(point)
        shutil.copytree(begun.root, root, symlinks=True)
        sample = SampleWorkspace(root, begun.upstream)
        killed = killed_at(point, lambda each=sample: each.run("continue"))  # type: ignore[misc]
        if json.loads((root / ".import/state.json").read_bytes())["decisions"]:
            assert sample.run("undo") == 0
            assert state_of(sample) == resolved, point
        else:
            assert sample.conflict("torch/b.py").read_text() == FIRST
        assert sample.run("continue") == 2
        assert sample.conflict("torch/a.py").exists()
        shutil.rmtree(root)
        point += step
        step = 3 if point > 40 else 1
    assert point > 20
