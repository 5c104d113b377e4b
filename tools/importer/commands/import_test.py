# SPDX-License-Identifier: Apache-2.0
"""Run complete imports in a small workspace, and stop, resume, abort or kill them."""

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
MOVED = {**V1, "torch/a.py": "new line\n" + A, "torch/b.py": B + "row 41\n"}
CLASH = {**V1, "torch/b.py": edited(B, row_20="row 20 of upstream")}
CLASHES = {**CLASH, "torch/a.py": edited(A, line_30="line 30 of upstream")}


@pytest.fixture
def sample(tmp_path: Path) -> SampleWorkspace:
    return laid_out(tmp_path)


def laid_out(directory: Path) -> SampleWorkspace:
    sample = make_workspace(directory)
    sample.series("v1", SERIES)
    return sample


def import_(sample: SampleWorkspace, label: str, *more: str) -> int:
    return sample.run("--tag", label, "--origin", str(sample.upstream / label), *more)


def patch_of(sample: SampleWorkspace, label: str, name: str) -> str:
    return (sample.root / "patches/torch" / label / f"{name}.patch").read_text()


def resolve(sample: SampleWorkspace, path: str, text: str) -> None:
    sample.conflict(path).write_text(text)


def test_a_series_that_fits_is_published(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sample.files()
    sample.release("v2", MOVED)
    assert import_(sample, "v2") == 0
    after = sample.files()
    assert {path: after[path] for path in before} == before
    assert sorted(set(after) - set(before)) == [
        "patches/torch/v2/base.json",
        "patches/torch/v2/base.lines",
        "patches/torch/v2/first.patch",
        "patches/torch/v2/second.patch",
        "patches/torch/v2/series",
        "patches/torch/v2/third.patch",
        "third_party/torch/licence.json",
    ]
    assert "@@ -1,7 +1,7 @@" in patch_of(sample, "v2", "first")
    out = capsys.readouterr().out
    assert "offset  first.patch" in out
    assert "3 of 3 patches: 1 clean, 2 offset" in out
    assert "the build stays where it is" in out
    assert sample.at_rest()


def test_the_same_again_is_nothing_to_do(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.release("v2", MOVED)
    assert import_(sample, "v2") == 0
    first = sample.files()
    times = {path: (sample.root / path).stat().st_mtime_ns for path in first}
    assert import_(sample, "v2") == 4
    assert import_(sample, "v2", "--from", "v2") == 4
    assert sample.files() == first
    assert {path: (sample.root / path).stat().st_mtime_ns for path in first} == times
    assert "nothing to do" in capsys.readouterr().out


def test_a_patch_that_landed_is_dropped_and_named(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.release("v2", {**V1, "torch/b.py": edited(B, row_20="row twenty")})
    assert import_(sample, "v2", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["landed"] == ["second.patch"]
    assert data["from"] == "v1"
    assert data["to"] == "v2"
    assert data["outcome"] == "published"
    series = (sample.root / "patches/torch/v2/series").read_text()
    assert series == "# Ours.\nfirst.patch\nthird.patch\n"
    assert not (sample.root / "patches/torch/v2/second.patch").exists()


@pytest.mark.parametrize("release", [MOVED, CLASH])
def test_a_dry_run_changes_nothing(
    sample: SampleWorkspace, release: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = sample.files()
    sample.release("v2", release)
    assert import_(sample, "v2", "--dry-run") == (0 if release is MOVED else 2)
    assert sample.files() == before
    assert sample.at_rest()
    out = capsys.readouterr().out
    assert ("new      patches/torch/v2/series" in out) == (release is MOVED)
    assert ("would stop at second.patch" in out) == (release is CLASH)


def test_a_conflict_stops_and_continue_goes_on(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sample.files()
    sample.release("v2", CLASHES)
    assert import_(sample, "v2") == 2
    assert sample.files() == before
    text = sample.conflict("torch/b.py").read_text()
    assert "<<<<<<< upstream v2\nrow 20 of upstream\n" in text
    assert "=======\nrow twenty\n>>>>>>> second.patch: second\n" in text
    summary = (sample.root / ".import/CONFLICT.md").read_text()
    assert "# second.patch: conflict" in summary
    assert "Reason: build" in summary
    assert "- `torch/b.py`" in summary

    capsys.readouterr()
    assert sample.run("continue") == 2
    number = text.splitlines().index("<<<<<<< upstream v2") + 1
    assert f".import/conflict/torch/b.py:{number}: '<<<<<<< upstream v2'" in capsys.readouterr().out
    assert sample.run("status") == 2
    assert "stopped at second.patch: conflict" in capsys.readouterr().out
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(sample.root)
        assert import_(sample, "v2") == 1
    assert "import of torch waits at second.patch" in capsys.readouterr().err

    resolve(sample, "torch/b.py", edited(B, row_20="row 20 of both"))
    assert sample.run("continue") == 2
    assert "stopped at third.patch" in capsys.readouterr().out
    assert not sample.conflict("torch/b.py").exists()
    resolve(sample, "torch/a.py", edited(A, line_3="line three", line_30="line 30 of both"))
    assert sample.run("continue") == 0
    assert "+row 20 of both" in patch_of(sample, "v2", "second")
    assert "-line 30 of upstream\n+line 30 of both" in patch_of(sample, "v2", "third")
    assert sample.at_rest()
    assert sample.run("status") == 0


def test_upstreams_version_as_the_answer_drops_the_patch(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.release("v2", CLASH)
    assert import_(sample, "v2") == 2
    resolve(sample, "torch/b.py", CLASH["torch/b.py"])
    assert sample.run("continue") == 0
    assert "landed upstream, dropped from the series: second.patch" in capsys.readouterr().out
    assert not (sample.root / "patches/torch/v2/second.patch").exists()


def test_a_deleted_file_deletes(sample: SampleWorkspace) -> None:
    sample.release("v2", CLASH)
    assert import_(sample, "v2") == 2
    sample.conflict("torch/b.py").unlink()
    assert sample.run("continue") == 0
    assert "deleted file mode 100644" in patch_of(sample, "v2", "second")


def test_skip_leaves_the_patch_out_and_says_so(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.release("v2", CLASHES)
    assert import_(sample, "v2") == 2
    assert sample.run("skip") == 2
    assert sample.run("skip") == 0
    out = capsys.readouterr().out
    assert "NOT carried, dropped by your decision: second.patch, third.patch" in out
    assert (sample.root / "patches/torch/v2/series").read_text() == "# Ours.\nfirst.patch\n"


def test_abort_leaves_the_workspace_as_it_was(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sample.files()
    sample.release("v2", CLASH)
    assert import_(sample, "v2") == 2
    assert sample.run("abort", "--dry-run") == 0
    assert (sample.root / ".import/state.json").exists()
    assert sample.run("abort") == 0
    assert sample.files() == before
    assert sample.at_rest()
    assert sample.run("abort") == 4
    for command in ("continue", "skip"):
        assert sample.run(command) == 1
    assert "nothing is under way" in capsys.readouterr().err


def test_a_file_that_upstream_deleted_needs_a_word(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.release("v2", {path: text for path, text in V1.items() if path != "torch/b.py"})
    assert import_(sample, "v2") == 2
    assert "second.patch: file gone" in (sample.root / ".import/CONFLICT.md").read_text()
    assert sample.run("continue") == 2
    assert "torch/b.py: untouched (upstream has no such file now" in capsys.readouterr().out
    assert sample.run("continue", "--as-is") == 0
    assert not (sample.root / "patches/torch/v2/second.patch").exists()


def test_the_change_of_a_deleted_file_may_go_to_another(sample: SampleWorkspace) -> None:
    sample.release("v2", {"torch/a.py": A, "torch/c.py": "row 20\n", "LICENSE": V1["LICENSE"]})
    assert import_(sample, "v2") == 2
    sample.conflict("torch").mkdir(parents=True)
    resolve(sample, "torch/c.py", "row twenty\n")
    assert sample.run("continue") == 0
    assert "b/torch/c.py" in patch_of(sample, "v2", "second")


def test_a_decision_that_cannot_be_published_is_not_kept(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    patch = sample.root / "patches/torch/v1/second.patch"
    patch.write_text(patch.read_text().replace("Test: t.py::t", "Test: t.py::t\nBudget: 1"))
    sample.release("v2", CLASH)
    assert import_(sample, "v2") == 2
    resolve(sample, "torch/b.py", edited(B, row_20="row 20\nof both"))
    assert sample.run("continue") == 1
    err = capsys.readouterr().err
    assert "v2/second.patch: adds 2 lines, over its Budget of 1" in err
    assert err.count("\n") == 1
    assert sample.run("status") == 2
    # While the import is stopped, the user may correct a header or a file.
    patch.write_text(patch.read_text().replace("Budget: 1", "Budget: 2"))
    assert sample.run("continue") == 0


def test_a_licence_that_changed_has_to_be_read_first(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.release("v2", MOVED)
    assert import_(sample, "v2") == 0
    before = sample.files()
    sample.release("v3", {**MOVED, "LICENSE": "Ask first.\n"})
    assert import_(sample, "v3") == 1
    assert "--acknowledge-licence" in capsys.readouterr().err
    assert sample.files() == before
    assert import_(sample, "v3", "--acknowledge-licence") == 0
    assert (
        sample.files()["third_party/torch/licence.json"] != before["third_party/torch/licence.json"]
    )


def test_a_file_that_nobody_has_is_not_taken_into_the_patch(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.release("v2", CLASH)
    assert import_(sample, "v2") == 2
    resolve(sample, "torch/b.py", edited(B, row_20="row 20 of both"))
    resolve(sample, "torch/b.py~", "an editor's copy")
    assert sample.run("continue") == 1
    assert "v2 has no such file" in capsys.readouterr().err
    sample.conflict("torch/b.py~").unlink()
    assert sample.run("continue") == 0


def test_a_series_that_changed_meanwhile_is_refused_but_for_its_headers(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.release("v2", CLASH)
    assert import_(sample, "v2") == 2
    resolve(sample, "torch/b.py", edited(B, row_20="row 20 of both"))
    patch = sample.root / "patches/torch/v1/third.patch"
    old = patch.read_text()
    patch.write_text(old.replace("line thirty", "line 3O"))
    assert sample.run("continue") == 1
    assert "changed since the import began" in capsys.readouterr().err
    patch.write_text(old.replace("Owner: us", "Owner: them"))
    assert sample.run("continue") == 0
    assert "Owner: them" in patch_of(sample, "v2", "third")


def test_another_series_of_that_release_is_not_overwritten(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.release("v2", MOVED)
    assert import_(sample, "v2") == 0
    patch = sample.root / "patches/torch/v2/third.patch"
    patch.write_text(patch.read_text().replace("line thirty", "line 3O"))
    before = sample.files()
    assert import_(sample, "v2") == 1
    assert "already exists with other contents (third.patch)" in capsys.readouterr().err
    assert sample.files() == before
    assert import_(sample, "v2", "--overwrite") == 0
    assert "line thirty" in patch_of(sample, "v2", "third")


def test_nobody_settles_conflicts_for_a_series_that_may_not_be_written(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.release("v2", CLASH)
    (sample.root / "patches/torch/v2").mkdir()
    assert import_(sample, "v2") == 1
    assert "second.patch would stop here for a decision" in capsys.readouterr().err
    assert sample.at_rest()
    assert import_(sample, "v2", "--overwrite") == 2
    resolve(sample, "torch/b.py", edited(B, row_20="row 20 of both"))
    assert sample.run("continue") == 0


def test_edits_that_git_has_not_seen_stop_it(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.release("v2", MOVED)
    sample.git("init", "-q")
    sample.git("add", "-A")
    sample.git("commit", "-qm", "all")
    (sample.root / "patches/torch/v1/note.txt").write_text("mine")
    assert import_(sample, "v2") == 1
    err = capsys.readouterr().err
    assert "not committed: patches/torch/v1/note.txt. Commit or stash" in err
    (sample.root / "patches/torch/v1/note.txt").unlink()
    (sample.root / "other.txt").write_text("is nobody's business")
    assert import_(sample, "v2") == 0
    assert import_(sample, "v2", "--allow-dirty") == 4


def test_a_base_that_does_not_fit_is_named(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    patch = sample.root / "patches/torch/v1/second.patch"
    patch.write_text(patch.read_text().replace(" row 19", " row l9"))
    sample.release("v2", MOVED)
    assert import_(sample, "v2") == 1
    assert "second.patch" in capsys.readouterr().err


def test_a_series_without_a_base_gets_one(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = sample.root / "patches/torch/v1"
    want = json.loads((directory / "base.json").read_text())["files"]
    (directory / "base.json").unlink()
    (directory / "base.lines").unlink()
    sample.release("v2", MOVED)
    assert import_(sample, "v2") == 1
    assert "Run `import.py --tag v1` once to record it" in capsys.readouterr().err
    assert import_(sample, "v1") == 0
    assert json.loads((directory / "base.json").read_text())["files"] == want
    assert import_(sample, "v2") == 0


def test_killed_while_it_stops_an_import_is_not_begun_or_waits(tmp_path: Path) -> None:
    sample = laid_out(tmp_path)
    sample.release("v2", CLASH)
    before = sample.files()
    number = 0
    while killed_at(number, lambda: import_(sample, "v2")):
        number += 1
        assert sample.files() == before
        if sample.run("status") == 2:
            assert sample.run("continue") == 2
            assert ">>>>>>>" in sample.conflict("torch/b.py").read_text()
            assert sample.run("abort") == 0
    assert number > 10


@pytest.mark.full
@pytest.mark.parametrize("release", [CLASH, CLASHES], ids=["publishes", "stops-again"])
def test_killed_at_any_call_continue_loses_no_decision(
    tmp_path: Path, release: dict[str, str]
) -> None:
    """No conflict resolution is lost if `continue` is killed at any file system call."""
    first = edited(B, row_20="row 20 of both")
    second = edited(A, line_3="line three", line_30="line 30 of both")
    begun = laid_out(tmp_path / "begun")
    begun.release("v2", release)
    old = begun.files()
    assert import_(begun, "v2") == 2
    resolve(begun, "torch/b.py", first)
    uninterrupted = copy_of(begun, tmp_path / "whole")
    if uninterrupted.run("continue") == 2:
        resolve(uninterrupted, "torch/a.py", second)
        assert uninterrupted.run("continue") == 0
    new = uninterrupted.files()

    for number in range(1000):
        sample = copy_of(begun, tmp_path / str(number))
        killed = killed_at(number, lambda each=sample: each.run("continue"))  # type: ignore[misc]
        if sample.run("status") == 2:
            assert sample.files() == old
            if sample.conflict("torch/b.py").exists():
                assert sample.conflict("torch/b.py").read_text() == first
            code = 2 if sample.conflict("torch/a.py").exists() else sample.run("continue")
            if code == 2:
                assert ">>>>>>> third.patch" in sample.conflict("torch/a.py").read_text()
                resolve(sample, "torch/a.py", second)
                code = sample.run("continue")
            assert code == 0
        assert sample.files() == new, number
        # A killed process no longer holds its lock. Only these files may remain.
        assert {path.name for path in sample.root.glob(".import/*")} <= {
            "lock",
            ".gitignore",
            "undo",
        }
        shutil.rmtree(sample.root)
        if not killed:
            return
    raise AssertionError("continue never ended")


def copy_of(sample: SampleWorkspace, directory: Path) -> SampleWorkspace:
    shutil.copytree(sample.root, directory, symlinks=True)
    return SampleWorkspace(directory, sample.upstream)
