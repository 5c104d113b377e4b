# SPDX-License-Identifier: Apache-2.0
"""Reuse conflict resolutions in later imports, and import the same branch repeatedly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.importer.commands.sample_workspace import V1, SampleWorkspace, edited, make_workspace
from tools.importer.git_repo.git_fixture import commit_files, git, new_repository

A, B = V1["torch/a.py"], V1["torch/b.py"]
SERIES = {
    "first": {"torch/a.py": edited(A, line_3="line three")},
    "second": {"torch/b.py": edited(B, row_20="row twenty")},
}
CLASH = edited(B, row_20="row 20 of upstream")
BOTH = edited(B, row_20="row 20 of both\nrow 20 again")
# The same conflict in a later release: 2 lines further down, with a change 5 lines below it.
LATER = "new 1\nnew 2\n" + edited(CLASH, row_25="row 25 of upstream")


@pytest.fixture(name="sample")
def _sample(tmp_path: Path) -> SampleWorkspace:
    sample = make_workspace(tmp_path)
    sample.series("v1", SERIES)
    sample.release("v2", {**V1, "torch/b.py": CLASH})
    sample.release("v3", {**V1, "torch/b.py": LATER})
    return sample


def import_(sample: SampleWorkspace, label: str, *more: str) -> int:
    origin = str(sample.upstream / label)
    return sample.run("--tag", label, "--origin", origin, "--from", "v1", *more)


def settle(sample: SampleWorkspace, text: str = BOTH) -> Path:
    """Resolve the conflict with v2 and return the path of the stored resolution."""
    assert import_(sample, "v2") == 2
    sample.conflict("torch/b.py").write_text(text)
    assert sample.run("continue") == 0
    (file,) = (sample.root / "patches/torch/settled").glob("*.json")
    return file


def test_the_same_conflict_is_settled_as_before_and_says_so(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    file = settle(sample)
    assert f"remembered: second.patch, for the same conflict ({file.stem})" in (
        capsys.readouterr().out
    )
    assert import_(sample, "v3", "--dry-run") == 0
    assert import_(sample, "v3") == 0
    out = capsys.readouterr().out
    where = f"second.patch in v1 -> v2, patches/torch/settled/{file.name}"
    assert f"resolved  second.patch  (as settled before: {where})" in out
    assert f"reused: second.patch is settled as {where}; to be asked again, run" in out
    patch = (sample.root / "patches/torch/v3/second.patch").read_text()
    assert "-row 20 of upstream\n+row 20 of both\n+row 20 again\n" in patch
    assert "@@ -19,7 +19,8 @@" in patch
    assert import_(sample, "v3", "--json") == 4
    (reused,) = json.loads(capsys.readouterr().out)["reused"]
    assert reused == {"patch": "second.patch", "id": file.stem, "source": where}


def test_no_text_of_upstream_is_stored(sample: SampleWorkspace) -> None:
    data = json.loads(settle(sample).read_text())
    assert data["files"] == [
        {"path": "torch/b.py", "answers": [["row 20 of both\n", "row 20 again\n"]]}
    ]
    assert (data["patch"], data["from"], data["to"]) == ("second.patch", "v1", "v2")


def test_a_settlement_can_be_forgotten_or_passed_over(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    file = settle(sample)
    assert import_(sample, "v3", "--ask-again") == 2
    assert sample.run("abort") == 0
    assert sample.run("settled") == 0
    assert f"{file.stem}  second.patch  v1 -> v2  (torch/b.py)" in capsys.readouterr().out
    assert sample.run("settled", "--forget", "secnd") == 1
    assert "Did you mean second?" in capsys.readouterr().err
    assert sample.run("settled", "--forget", "second", "--dry-run") == 0
    assert file.exists()
    assert sample.run("settled", "--forget", file.stem) == 0
    assert not file.parent.exists()
    assert sample.run("settled") == 4
    assert import_(sample, "v3") == 2


@pytest.mark.parametrize(
    "text",
    [
        LATER.replace("row 20 of upstream", "row 20 of somebody else"),  # another upstream line
        LATER.replace("row 19\n", "row nineteen\n"),  # the changed line is adjacent to the conflict
    ],
)
def test_another_conflict_at_the_same_place_asks(sample: SampleWorkspace, text: str) -> None:
    settle(sample)
    sample.release("v3", {**V1, "torch/b.py": text})
    assert import_(sample, "v3") == 2


def test_another_patch_with_the_same_lines_but_another_change_asks(
    sample: SampleWorkspace, tmp_path: Path
) -> None:
    settle(sample)
    other = make_workspace(tmp_path / "other")
    other.series("v1", {"second": {"torch/b.py": edited(B, row_20="row score")}})
    other.release("v2", {**V1, "torch/b.py": CLASH})
    store = other.root / "patches/torch/settled"
    (sample.root / "patches/torch/settled").rename(store)
    assert import_(other, "v2") == 2


def test_a_resolution_outside_the_conflict_is_not_remembered(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert import_(sample, "v2") == 2
    sample.conflict("torch/b.py").write_text("import helper\n" + BOTH)
    assert sample.run("continue") == 0
    assert "not remembered: second.patch" in capsys.readouterr().out
    assert not (sample.root / "patches/torch/settled").exists()
    assert import_(sample, "v3") == 2


def test_upstreams_version_as_the_answer_drops_the_patch_again(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    settle(sample, CLASH)
    assert import_(sample, "v3") == 0
    out = capsys.readouterr().out
    assert "landed" in out
    assert "reused: second.patch is settled as second.patch in v1 -> v2" in out
    assert not (sample.root / "patches/torch/v3/second.patch").exists()


def test_a_skipped_patch_is_not_remembered(sample: SampleWorkspace) -> None:
    assert import_(sample, "v2") == 2
    assert sample.run("skip") == 0
    assert not (sample.root / "patches/torch/settled").exists()


def test_a_damaged_settlement_is_one_line(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    file = settle(sample)
    file.write_text("{}")
    assert import_(sample, "v3") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"patches/torch/settled/{file.name}: KeyError('conflict')" in line


class Daily:
    """A project that is imported from the main branch of a real repository."""

    def __init__(self, root: Path) -> None:
        self.upstream = new_repository(root / "upstream")
        self.lines = [f"line {number}\n" for number in range(20)]
        self.commit("Begin")
        git(self.upstream, "tag", "v1.0")
        self.root = root / "workspace"
        (self.root / "third_party").mkdir(parents=True)
        self.sample = SampleWorkspace(self.root, self.upstream)

    def commit(self, message: str) -> str:
        files = {"lib/__init__.py": b"", "lib/a.py": "".join(self.lines).encode()}
        return commit_files(self.upstream, files, message)

    def begin(self) -> None:
        run = self.sample.run
        arguments = ("--origin", str(self.upstream), "--tag", "v1.0", "--licence", "MIT")
        assert run("init", "lib", *arguments) == 0
        header = ("--owner", "us", "--reason", "build", "--upstream", "None yet")
        more = ("--extension-point", "None", "--test", "t.py::t")
        assert run("new", "Say ten", "lib/a.py", *header, *more) == 0
        file = self.root / ".import/edit/tree/lib/a.py"
        file.write_text(file.read_text().replace("line 10\n", "line ten\n"))
        assert run("refresh") == 0

    def series(self) -> list[str]:
        return sorted(file.parent.name for file in self.root.glob("patches/lib/*/series"))


@pytest.fixture(name="daily")
def _daily(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Daily:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    daily = Daily(tmp_path)
    daily.begin()
    return daily


def test_series_of_a_branch_do_not_pile_up(daily: Daily) -> None:
    """An import deletes the branch's older patch series, but no user files and no series in use."""
    daily.lines[0] = "line 0, new\n"
    first = daily.commit("Change line 0")[:12]
    assert daily.sample.run("--ref", "main") == 0
    assert daily.series() == sorted([first, "v1.0"])
    daily.lines[1] = "line 1, new\n"
    second = daily.commit("Change line 1")[:12]
    assert daily.sample.run("--ref", "main") == 0
    assert daily.series() == sorted([second, "v1.0"])
    assert not (daily.root / "patches/lib" / first).exists()
    git(daily.upstream, "branch", "other")
    assert daily.sample.run("--ref", "other") == 0
    daily.lines[2] = "line 2, new\n"
    third = daily.commit("Change line 2")[:12]
    assert daily.sample.run("--ref", "main") == 0
    assert daily.series() == sorted([second, third, "v1.0"])
    note = daily.root / "patches/lib" / third / "note.txt"
    note.write_text("mine")
    daily.lines[3] = "line 3, new\n"
    fourth = daily.commit("Change line 3")[:12]
    assert daily.sample.run("--ref", "main") == 0
    assert daily.series() == sorted([second, fourth, "v1.0"])
    assert [path.name for path in note.parent.iterdir()] == ["note.txt"]


def test_the_commits_that_came_in_are_listed(
    daily: Daily, capsys: pytest.CaptureFixture[str]
) -> None:
    daily.commit("Not in the range")
    assert daily.sample.run("--ref", "main") == 0
    titles = ["Say\x1b more (#7)", "Fix it (#8)"]
    for number, title in enumerate(titles):
        daily.lines[number] = f"{title}\n"
        daily.commit(title)
    capsys.readouterr()
    assert daily.sample.run("--ref", "main", "--since", "LAST", "--dry-run") == 0
    out = capsys.readouterr().out
    assert "2 upstream commits since " in out
    assert out.index("Fix it (#8)") < out.index("Say\\x1b more (#7)")
    assert "Not in the range" not in out
    assert daily.sample.run("--ref", "main", "--since", "LAST", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert [each["title"] for each in data["commits"]] == titles[::-1]


def test_a_branch_that_upstream_rewrote_is_named(
    daily: Daily, capsys: pytest.CaptureFixture[str]
) -> None:
    daily.commit("Lost")
    assert daily.sample.run("--ref", "main") == 0
    git(daily.upstream, "reset", "--quiet", "--hard", "v1.0")
    daily.commit("Instead of it")
    assert daily.sample.run("--ref", "main", "--since", "LAST") == 1
    assert "the branch was rewritten" in capsys.readouterr().err
    assert daily.sample.run("--ref", "main") == 0
