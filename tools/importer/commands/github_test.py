# SPDX-License-Identifier: Apache-2.0
"""Follow a patch through upstream pull requests, with commit messages like GitHub's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.importer.commands.main import main
from tools.importer.git_repo.git_fixture import commit_files, git, new_repository

LINES = [f"line {number}\n" for number in range(40)]
TEN = "line ten, which we want\n"


class GitHub:
    """A project with the patches `say-ten` and `say-thirty`, and its upstream repository."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.upstream, self.root, self.capsys = root / "upstream", root / "workspace", capsys
        new_repository(self.upstream)
        git(self.upstream, "config", "user.name", "Ada")
        git(self.upstream, "config", "user.email", "ada@example.org")
        commit_files(self.upstream, {"lib/__init__.py": b"", **self._file("".join(LINES))}, "v1")
        git(self.upstream, "tag", "v1.0")
        (self.root / "third_party").mkdir(parents=True)
        origin = ("--origin", str(self.upstream), "--tag", "v1.0", "--licence", "MIT")
        self.run(0, "init", "lib", *origin)
        self.patch("Say ten", ("line 10\n", TEN))
        self.patch("Say thirty", ("line 30\n", "line thirty\n"))

    def run(self, code: int, *arguments: str) -> str:
        """Run import.py, check that it exits with `code`, and return its output."""
        self.capsys.readouterr()
        assert main(["--workspace", str(self.root), *arguments]) == code, self.capsys.readouterr()
        return self.capsys.readouterr().out

    def patch(self, subject: str, *edits: tuple[str, str]) -> None:
        header = ("--owner", "us", "--reason", "upstream", "--upstream", "None yet")
        more = ("--extension-point", "None", "--test", "t.py::t")
        self.run(0, "new", subject, "lib/a.py", *header, *more)
        file = self.root / ".import/edit/tree/lib/a.py"
        for old, new in edits:
            file.write_text(file.read_text().replace(old, new))
        self.run(0, "refresh")

    def text(self) -> str:
        return (self.upstream / "lib/a.py").read_text()

    def commit(self, message: str, *edits: tuple[str, str]) -> str:
        """Apply text replacements to the file, and commit the result."""
        text = self.text()
        for old, new in edits:
            assert old in text
            text = text.replace(old, new)
        return commit_files(self.upstream, self._file(text), message)

    def squash(self, branch: str, message: str, *edits: tuple[str, str]) -> str:
        """Squash-merge a branch as GitHub does, with a reviewer's edits."""
        git(self.upstream, "merge", "--quiet", "--squash", branch)
        return self.commit(message, *edits)

    def revert(self, commit: str, number: int) -> None:
        git(self.upstream, "revert", "--no-edit", commit)
        title = git(self.upstream, "log", "-1", "--format=%s")
        git(self.upstream, "commit", "--quiet", "--amend", f"--message={title} (#{number})")

    def series(self) -> list[str]:
        label = json.loads((self.root / "third_party/lib/pin.json").read_text())["tag"]
        self.directory = self.root / "patches/lib" / label
        text = (self.directory / "series").read_text()
        return [line for line in text.splitlines() if not line.startswith("#")]

    def landed(self) -> list[str]:
        self.series()
        return sorted(path.name for path in self.directory.glob("landed/*.patch"))

    @staticmethod
    def _file(text: str) -> dict[str, bytes]:
        return {"lib/a.py": text.encode()}


@pytest.fixture(name="github")
def _github(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> GitHub:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    return GitHub(tmp_path, capsys)


def test_an_exported_patch_lands_stays_landed_and_comes_back_after_a_revert(
    github: GitHub,
) -> None:
    github.run(0, "export", "--to", str(github.upstream))
    landed = github.squash("lib/say-ten", "Say ten (#77)\n\n* wip")
    out = github.run(0, "--ref", "main")
    assert "landed upstream, dropped from the series: say-ten.patch" in out
    assert github.series() == ["say-thirty.patch"]
    assert github.landed() == ["say-ten.patch"]
    github.run(4, "--ref", "main")
    first = github.directory
    github.commit("Add a line (#78)", ("line 0\n", "line 0\nline 0.5\n"))
    out = github.run(0, "--ref", "main")
    assert "back:" not in out
    assert (github.series(), github.landed()) == (["say-thirty.patch"], ["say-ten.patch"])
    assert not first.exists(), "the branch's last series is replaced, with its landed patches"
    github.run(0, "undo")
    assert (first / "landed/say-ten.patch").exists()
    assert github.directory != first
    assert not github.directory.exists()
    github.run(0, "--ref", "main")
    github.revert(landed, 79)
    assert "1 clean; back after a revert: say-ten.patch" in github.run(0, "sync")
    assert "<br>back: say-ten.patch" in github.run(0, "drift", "--ref", "main", "--format=html")
    document = json.loads(github.run(0, "drift", "--ref", "main", "--json"))
    assert document["releases"][0]["returned"] == ["say-ten.patch"]
    out = github.run(0, "--ref", "main", "--dry-run")
    assert "back: say-ten.patch is in the series again, because upstream has reverted it" in out
    assert json.loads(github.run(0, "--ref", "main", "--json"))["returned"] == ["say-ten.patch"]
    assert (github.series(), github.landed()) == (["say-ten.patch", "say-thirty.patch"], [])
    patch = (github.directory / "say-ten.patch").read_text()
    assert "@@ -9,7 +9,7 @@" in patch  # the hunk is one line further down than in v1.0
    assert f"+{TEN}" in patch
    assert patch.startswith("Subject: Say ten\nOwner: us\n")
    assert "verified: " in github.run(0, "verify")
    github.run(4, "--ref", "main")


def test_a_patch_comes_back_from_one_release_to_the_next(github: GitHub) -> None:
    """The patch landed in a larger commit, so only the patch's own lines reveal the revert."""
    github.commit("Much at once (#5)", ("line 10\n", TEN), ("line 20\n", "line twenty\n"))
    git(github.upstream, "tag", "v1.1")
    github.run(0, "--tag", "v1.1")
    assert github.landed() == ["say-ten.patch"]
    github.commit("As before (#6)", (TEN, "line 10\n"))
    git(github.upstream, "tag", "v1.2")
    github.run(0, "--tag", "v1.2")
    assert github.series() == ["say-ten.patch", "say-thirty.patch"]
    assert (github.root / "patches/lib/v1.1/landed/say-ten.patch").exists()


def test_all_landed_patches_come_back_in_their_order(github: GitHub) -> None:
    github.patch("Say more of ten", (TEN, TEN + "and more\n"))
    both = (("line 10\n", TEN + "and more\n"),)
    landed = github.commit("Say ten (#7)", *both)
    github.run(0, "--ref", "main")
    github.series()
    order = (github.directory / "landed/series").read_text().splitlines()[1:]
    assert order == ["say-ten.patch", "say-more-of-ten.patch"]
    github.revert(landed, 8)
    github.run(0, "--ref", "main")
    assert github.series() == ["say-ten.patch", "say-more-of-ten.patch", "say-thirty.patch"]
    assert "verified: " in github.run(0, "verify")


@pytest.mark.parametrize(
    "edit",
    [
        (TEN, "line ten, which everybody wants\n"),  # upstream changes the same line
        ("line 9\n" + TEN, "line 9, rewritten\n"),  # upstream removes the line in a rewrite
    ],
)
def test_a_landed_patch_that_upstream_changed_is_upstreams(
    github: GitHub, edit: tuple[str, str]
) -> None:
    github.commit("Say ten (#77)", ("line 10\n", TEN))
    github.run(0, "--ref", "main")
    github.commit("Improve it (#80)", edit)
    out = github.run(0, "--ref", "main")
    assert "no longer watched: say-ten.patch, because upstream has changed its lines" in out
    assert (github.series(), github.landed()) == (["say-thirty.patch"], [])


def test_half_a_revert_is_no_revert(github: GitHub) -> None:
    github.patch("Say two and five", ("line 2\n", "line two\n"), ("line 35\n", "line five\n"))
    two, five = ("line 2\n", "line two\n"), ("line 35\n", "line five\n")
    github.commit("Say both (#1)", two, five)
    github.run(0, "--ref", "main")
    assert github.landed() == ["say-two-and-five.patch"]
    github.commit("Say only one (#2)", two[::-1])
    assert "no longer watched: say-two-and-five.patch" in github.run(0, "--ref", "main")
    assert github.series() == ["say-ten.patch", "say-thirty.patch"]


def test_an_export_that_landed_with_tweaks_is_suspected_with_both_texts(github: GitHub) -> None:
    """The reviewer changed a word in the line that the patch adds, and added a second line."""
    github.run(0, "export", "--to", str(github.upstream))
    tweak = (TEN, "line ten, which we all want\nand more\n")
    github.squash("lib/say-ten", "Say ten (#77)", tweak)
    out = github.run(2, "--ref", "main")
    assert "suspected  say-ten.patch" in out
    summary = (github.root / ".import/CONFLICT.md").read_text()
    rows = [line.strip() for line in summary.splitlines()]
    assert "the patch                 upstream" in rows
    assert "line ten, which we want | line ten, which we all want" in rows, summary
    assert "> and more" in rows
    github.run(0, "abort")
    explained = github.run(0, "drift", "--ref", "main", "--explain", "say-ten")
    assert "line ten, which we want | line ten, which we all want" in explained
    page = github.run(0, "drift", "--ref", "main", "--format", "html")
    assert '<table class="sides">' in page
    assert '<code class="add">line ten, which we all want</code>' in page
    out = github.run(1, "export", "--to", str(github.upstream), "--onto", "main")
    assert "refused   say-ten.patch" in out
    assert "suspected on " in out


def test_an_exported_branch_follows_its_patch(github: GitHub) -> None:
    out = github.run(0, "export", "--to", str(github.upstream))
    assert "title: Say ten; text: " in out
    message = git(github.upstream, "log", "-1", "--format=%B", "lib/say-ten")
    assert message.startswith("Say ten\n\nTest plan:\nt.py::t\n\nSigned-off-by: Ada ")
    github.run(0, "edit", "say-ten")
    file = github.root / ".import/edit/tree/lib/a.py"
    file.write_text(file.read_text().replace(TEN, "line ten, better\n"))
    github.run(0, "refresh")
    out = github.run(0, "export", "--to", str(github.upstream))
    assert "replaced  say-ten.patch" in out
    assert "unchanged say-thirty.patch" in out
    assert "+line ten, better" in git(github.upstream, "show", "lib/say-ten")


def test_a_patch_that_landed_by_decision_is_not_watched(github: GitHub) -> None:
    github.commit("Say ten, tweaked (#77)", ("line 10\n", "line ten, which we all want\n"))
    github.run(2, "--ref", "main")
    (github.root / ".import/conflict/lib/a.py").write_text(github.text())
    out = github.run(0, "continue")
    assert "landed upstream, dropped from the series: say-ten.patch" in out
    assert "not watched: say-ten.patch would not come back" in out
    assert github.landed() == []


def test_a_cherry_pick_by_number_drops_out_and_comes_back(github: GitHub) -> None:
    commit = github.commit("Say five (#77)", ("line 5\n", "line five\n"))
    github.commit("Unrelated (#78)", ("line 20\n", "line twenty\n"))
    assert "Say five" in github.run(0, "cherry-pick", "77", "--owner", "us")
    assert github.series()[-1] == "say-five.patch"
    assert f"Cherry-pick: {commit}" in (github.directory / "say-five.patch").read_text()
    github.run(0, "--ref", "main")
    assert github.landed() == ["say-five.patch"]
    github.revert(commit, 79)
    github.run(0, "--ref", "main")
    assert github.series()[0] == "say-five.patch"
    github.run(1, "cherry-pick", "77", "--owner", "us")  # the series already has this patch
