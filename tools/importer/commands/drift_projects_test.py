# SPDX-License-Identifier: Apache-2.0
"""Run `drift --all-projects` with real repositories, and `drift --explain`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tools.importer.commands.main import main
from tools.importer.git_repo.git_fixture import commit_files, git, new_repository

LINES = [f"line {number}\n" for number in range(20)]


class Workspace:
    """Two projects imported from real repositories, each with a patch that changes line 10."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory, self.root, self.capsys = root, root / "workspace", capsys
        (self.root / "third_party").mkdir(parents=True)
        for name in ("one", "two"):
            upstream = new_repository(root / name)
            self.release(name, "v1.0", {})
            origin = ("--origin", str(upstream), "--tag", "v1.0", "--licence", "MIT")
            assert self.run("init", name, *origin) == 0
            header = ("--owner", "us", "--reason", "build", "--upstream", "None yet")
            more = ("--extension-point", "None", "--test", "t.py::t")
            patch = ("new", "Say ten", f"{name}/a.py", *header, *more)
            assert self.run("--project", name, *patch) == 0
            file = self.root / ".import/edit/tree" / name / "a.py"
            file.write_text(file.read_text().replace("line 10\n", "line ten of ours\n"))
            assert self.run("refresh") == 0
        capsys.readouterr()

    def release(self, name: str, tag: str, changes: dict[int, str]) -> None:
        lines = [changes.get(number, line) for number, line in enumerate(LINES)]
        files = {f"{name}/__init__.py": b"", f"{name}/a.py": "".join(lines).encode()}
        commit_files(self.directory / name, files)
        git(self.directory / name, "tag", tag)

    def run(self, *arguments: str) -> int:
        return main(["--workspace", str(self.root), *arguments])

    def drift(self, *arguments: str) -> str:
        self.capsys.readouterr()
        assert self.run("drift", *arguments) == 0
        return self.capsys.readouterr().out


@pytest.fixture(name="workspace")
def _workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Workspace:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    return Workspace(tmp_path, capsys)


def test_all_projects_are_on_one_page_with_a_link_to_each_conflict(workspace: Workspace) -> None:
    workspace.release("one", "v2.0", {10: "line 10, changed\n"})
    workspace.release("two", "v1.1", {10: "line 10, changed\n"})
    workspace.release("two", "v1.2", {10: "<b>line 10</b>\n"})
    page = workspace.drift("--all-projects", "--format", "html")
    assert page.startswith("<!doctype html>")
    assert "<h1>Drift: 2 projects</h1>" in page
    assert "2 patches need you" in page
    links = re.findall(r'<a href="#([^"]*)">', page)
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(ids) == len(set(ids)), "two elements have the same id"
    assert set(links) <= set(ids)
    conflicts = {"p-one-say-ten.patch-0", "p-two-say-ten.patch-0"}
    assert conflicts <= set(links)
    assert "v1.1" not in page, "only the newest release"
    assert "&lt;b&gt;line 10&lt;/b&gt;" in page


def test_a_project_without_news_and_one_that_fails_are_named(workspace: Workspace) -> None:
    (workspace.root / "third_party/two/import.json").write_text("{}")
    file = workspace.directory / "drift.html"
    arguments = ("--all-projects", "--format", "html", "--output", str(file))
    assert workspace.run("drift", *arguments) == 1
    page = file.read_text()
    assert "v1.0: nothing is newer upstream" in page
    assert "cannot be asked: " in page
    assert "No patch of any project needs you." in page


def test_text_and_json_of_all_projects(workspace: Workspace) -> None:
    workspace.release("one", "v2.0", {10: "line 10, changed\n"})
    out = workspace.drift("--all-projects")
    assert out.startswith("one\n\n1 patch of v1.0")
    assert "two\n\nv1.0: nothing is newer upstream\n" in out
    data = json.loads(workspace.drift("--all-projects", "--format", "json"))["projects"]
    assert data["one"]["releases"][0]["label"] == "v2.0"
    assert data["two"] == {"note": "v1.0: nothing is newer upstream"}
    assert workspace.run("drift", "--all-projects", "--exit-code") == 2


@pytest.mark.parametrize(
    "more", [("v2.0",), ("--explain", "x"), ("--ref", "main"), ("--series", "v1.0")]
)
def test_options_of_one_project_are_refused(workspace: Workspace, more: tuple[str, ...]) -> None:
    assert workspace.run("drift", "--all-projects", *more) == 1
    assert "--all-projects takes no " in workspace.capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "evidence"),
    [
        ({2: "new 1\nnew 2\n"}, ["offset: its lines have moved", "(moved by +1 lines)"]),
        ({9: "line nine\n"}, ["conflict: upstream changed the same lines", "both changed line 10"]),
        ({10: "line ten of ours\n"}, ["landed: upstream contains it, because merging it changes"]),
        (
            {10: "line ten of ours!\n"},
            ["suspected: ", "upstream changed line 11 much like it", "line ten of ours!"],
        ),
    ],
)
def test_explain_gives_the_merges_evidence(
    workspace: Workspace, changes: dict[int, str], evidence: list[str]
) -> None:
    workspace.release("one", "v2.0", changes)
    out = workspace.drift("v2.0", "--explain", "say-ten", "--project", "one")
    assert "\nsay-ten.patch of v1.0: Say ten\nOwner: us. " in out
    for each in evidence:
        assert each in out
