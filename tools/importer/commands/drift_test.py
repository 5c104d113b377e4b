# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tools.importer.commands.main import main
from tools.importer.drift.sample import PartialSnapshot, function, upstream, write_series

_QUIET = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
_CLASH = function("c_0") + function("c_1", "    raise SystemExit('no more')\n") + function("c_2")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a workspace with three patches on v1, and a git repository with v1 and v2."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in _QUIET.items():
        monkeypatch.setenv(name, value)
    repository = tmp_path / "upstream"
    repository.mkdir()
    _git(repository, "init", "-q", "-b", "main")
    _release(repository, upstream("v1"))
    _release(repository, upstream("v2", a=function("a_new") + _text("a"), b=None, c=_CLASH))
    root = tmp_path / "workspace"
    project = root / "third_party" / "torch"
    project.mkdir(parents=True)
    write_series(root / "patches" / "torch")
    settings = {
        "name": "torch",
        "pin": "third_party/torch/pin.json",
        "series": "patches/torch",
        "metadata": "third_party/torch/METADATA",
        "origins": {"git": {"url": str(repository)}},
    }
    (project / "import.json").write_text(json.dumps(settings))
    (project / "pin.json").write_text(json.dumps({"tag": "v1"}))
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(root))
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    return root


def _text(letter: str) -> str:
    return "".join(function(f"{letter}_{number}") for number in range(3))


def _release(repository: Path, snapshot: PartialSnapshot) -> None:
    _git(repository, "rm", "-rqf", "--ignore-unmatch", ".")
    for path in snapshot.paths():
        blob = snapshot.read(path)
        assert blob is not None
        target = repository / path
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(blob.data)
    _git(repository, "add", "-A")
    _git(
        repository,
        *("-c", "user.name=U", "-c", "user.email=u@example.com"),
        *("commit", "-qm", snapshot.label),
    )
    _git(repository, "tag", snapshot.label)


def _git(repository: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", repository, *arguments], check=True, env={**os.environ, **_QUIET})


def _run(*arguments: str) -> int:
    return main(["drift", *arguments])


def test_text_says_each_outcome(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("v1", "v2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "a.patch          clean  offset" in lines
    assert "b.patch          clean  file gone" in lines
    assert "c.patch          clean  conflict" in lines
    assert "v2: 1 offset, 1 file gone, 1 conflict" in lines
    assert sum(line.startswith("  v2: ") for line in lines) == 2


def test_a_document_is_alone_on_standard_output(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("v2", "--format", "json") == 0
    alone = json.loads(capsys.readouterr().out)
    assert _run("v2", "--json") == 0
    assert json.loads(capsys.readouterr().out) == alone
    (release,) = alone["releases"]
    assert release["counts"] == {"offset": 1, "file gone": 1, "conflict": 1}
    assert release["origin"]["kind"] == "git"
    assert release["commit"]
    assert _run("v2", "--format", "html") == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")


def test_nothing_of_the_workspace_changes(workspace: Path) -> None:
    before = _contents(workspace)
    assert _run("v1", "v2") == 0
    assert _contents(workspace) == before


def test_output_goes_to_a_file_of_the_callers_directory(
    workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("v2", "--format", "html", "--output", "drift.html")
    assert _run(*arguments, "--dry-run") == 0
    assert not (tmp_path / "drift.html").exists()
    assert "drift.html: would be written, " in capsys.readouterr().out
    assert _run(*arguments) == 0
    assert (tmp_path / "drift.html").read_text().startswith("<!doctype html>")
    assert _run(*arguments) == 0
    assert "drift.html: unchanged" in capsys.readouterr().out


def test_the_exit_status_tells_of_stops_when_asked(workspace: Path) -> None:
    assert _run("v2", "--exit-code") == 2
    assert _run("v1", "--exit-code") == 0


def test_a_ref_and_an_origin_by_path(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--ref", "main", "--origin", "upstream") == 0
    assert "`import.py --ref main --origin upstream` stops there" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no release is named. Name one or more: `import.py drift v2.14.1`"),
        (("v2", "--series", "v9"), "no series. There are: v1"),
        (("v3",), "no v3 of torch"),
        (("v2", "--output", "no/where"), "Name a file in a directory that exists"),
    ],
)
def test_a_persons_mistake_is_one_line(
    workspace: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    assert _run(*arguments) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_pin_without_a_tag_is_one_line(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "third_party/torch/pin.json").write_text("{}")
    assert _run("v2") == 1
    assert "no readable tag (KeyError('tag'))" in capsys.readouterr().err


def _contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }
