# SPDX-License-Identifier: Apache-2.0
"""Run vendor, export and cherry-pick with a small workspace and real repositories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools.importer.commands.main import main
from tools.importer.git_repo.git_fixture import commit_files, git, make_series, new_repository

LINES = [b"line %d\n" % number for number in range(40)]
TREE = {"torch/a.py": b"".join(LINES), "torch/b.py": b"b\n", "torch/google/BUILD": b"upstream's\n"}
OURS = TREE["torch/a.py"].replace(LINES[5], b"ours\n")
FIX = OURS.replace(LINES[30], b"fixed\n")
AT = "third_party/py/torch"


class Workspace:
    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root / "workspace"
        self.capsys = capsys
        torch = self.root / "third_party/torch"
        torch.mkdir(parents=True)
        self.upstream = new_repository(root / "upstream")
        self.v1 = commit_files(self.upstream, TREE)
        settings = {
            "name": "torch",
            "builder": "torch_wheel",
            "pin": "third_party/torch/pin.json",
            "series": "patches/torch",
            "metadata": "third_party/torch/METADATA",
            "origins": {"git": {"url": str(self.upstream)}},
        }
        (torch / "import.json").write_text(json.dumps(settings))
        (torch / "pin.json").write_text(json.dumps({"tag": "v0"}))
        self.series = self.root / "patches/torch/v1"
        make_series(
            self.series,
            self.upstream,
            self.v1,
            {"ours": ("google", {"torch/a.py": OURS}), "fix": ("upstream", {"torch/a.py": FIX})},
        )
        self.mono = new_repository(root / "mono")
        commit_files(self.mono, {"README": b"mono\n"})

    def run(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        command = ["--workspace", str(self.root), "--json", *arguments, "--series", "v1"]
        code = main(command)
        out = self.capsys.readouterr()
        self.said = out.err
        return code, json.loads(out.out)

    def vendor(self, *more: str) -> tuple[int, dict[str, Any]]:
        return self.run("vendor", "--into", str(self.mono), "--at", AT, *more)


@pytest.fixture(name="workspace")
def _workspace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return Workspace(tmp_path, capsys)


def test_vendor_commits_once(workspace: Workspace) -> None:
    code, answer = workspace.vendor("--dry-run")
    assert (code, answer["outcome"]) == (0, "would commit")
    assert not (workspace.mono / AT).exists()
    code, answer = workspace.vendor()
    assert (code, answer["outcome"]) == (0, "committed")
    assert answer["added"] == ["torch/a.py", "torch/b.py"]
    assert (workspace.mono / AT / "torch/a.py").read_bytes() == FIX
    message = git(workspace.mono, "log", "-1", "--format=%B")
    assert f"GitOrigin-RevId: {workspace.v1}" in message
    assert "Imported-Tag: v1" in message
    assert workspace.vendor()[0] == 4
    assert workspace.vendor("--at", "../x")[0] == 1
    assert "'..' in a path could lead outside" in workspace.said


def test_vendor_offers_a_fixup_which_the_series_takes(workspace: Workspace, tmp_path: Path) -> None:
    workspace.vendor()
    edited = FIX.replace(LINES[20], b"edited in the monorepo\n")
    commit_files(workspace.mono, {f"{AT}/torch/a.py": edited})
    code, answer = workspace.vendor()
    assert code == 1
    assert "torch/a.py" in answer["error"]
    assert "--fixup FILE" in answer["error"]
    fixup = tmp_path / "fixup.patch"
    code, answer = workspace.vendor("--fixup", str(fixup))
    assert (code, answer["edits"]) == (0, ["torch/a.py"])
    patch = workspace.series / "fixup.patch"
    patch.write_bytes(fixup.read_bytes())
    (workspace.series / "series").write_text("ours.patch\nfix.patch\nfixup.patch\n")
    assert workspace.vendor()[0] == 1
    assert "header 'Owner' is missing" in workspace.said
    text = fixup.read_text()
    for key in ("Owner", "Upstream", "Extension-point-considered", "Test"):
        text = text.replace(f"{key}:\n", f"{key}: us\n")
    patch.write_text(text.replace("Reason:\n", "Reason: google\n"))
    assert workspace.vendor()[0] == 0
    assert (workspace.mono / AT / "torch/a.py").read_bytes() == edited


def test_export_makes_branches_and_files(workspace: Workspace, tmp_path: Path) -> None:
    to = str(workspace.upstream)
    code, answer = workspace.run("export", "--to", to)
    assert code == 1
    assert "config user.name" in answer["error"]
    git(workspace.upstream, "config", "user.name", "Ada")
    git(workspace.upstream, "config", "user.email", "ada@example.org")
    code, answer = workspace.run("export", "--to", to)
    assert code == 0
    states = {each["patch"]: (each["state"], each["ref"]) for each in answer["patches"]}
    assert states == {"fix.patch": ("new", "refs/heads/torch/fix"), "ours.patch": ("new", None)}
    for each in answer["patches"]:
        assert Path(each["file"]).is_file()
    assert git(workspace.upstream, "status", "--porcelain") == ""
    assert workspace.run("export", "--to", to)[0] == 4
    code, answer = workspace.run("export", "--to", str(tmp_path / "mail"), "--patch", "fix")
    assert [each["file"] for each in answer["patches"]] == [str(tmp_path / "mail/fix.patch")]
    code, answer = workspace.run("export", "--to", to, "--patch", "fxi")
    assert code == 1
    assert "Did you mean 'fix.patch'?" in answer["error"]


def test_cherry_pick_adds_a_patch(workspace: Workspace) -> None:
    commit = commit_files(workspace.upstream, {"torch/b.py": b"better\n"}, "Make b better")
    code, answer = workspace.run("cherry-pick", commit[:12], "--owner", "us", "--dry-run")
    assert (code, answer["outcome"]) == (0, "would add")
    assert not (workspace.series / "make-b-better.patch").exists()
    code, answer = workspace.run("cherry-pick", commit[:12], "--owner", "us")
    assert (code, answer["patch"]) == (0, "make-b-better.patch")
    assert (workspace.series / "series").read_text().endswith("fix.patch\nmake-b-better.patch\n")
    assert workspace.vendor()[1]["added"] == ["torch/a.py", "torch/b.py"]
    assert (workspace.mono / AT / "torch/b.py").read_bytes() == b"better\n"


def test_a_conflict_is_edited_aside(workspace: Workspace, tmp_path: Path) -> None:
    text = TREE["torch/a.py"].replace(LINES[5], b"theirs\n")
    commit = commit_files(workspace.upstream, {"torch/a.py": text}, "Clash")
    pick = ("cherry-pick", commit, "--owner", "us")
    code, answer = workspace.run(*pick)
    assert code == 1
    assert "conflicts with our tree in torch/a.py" in answer["error"]
    desk = tmp_path / "desk"
    code, answer = workspace.run(*pick, "--to-edit", str(desk))
    assert (code, answer["conflicts"]) == (2, ["torch/a.py"])
    assert workspace.run(*pick, "--from-edit", str(desk))[0] == 1
    (desk / "torch/a.py").write_bytes(FIX.replace(b"ours\n", b"both\n"))
    assert workspace.run(*pick, "--from-edit", str(desk))[0] == 0
    workspace.vendor()
    assert (workspace.mono / AT / "torch/a.py").read_bytes() == FIX.replace(b"ours\n", b"both\n")
