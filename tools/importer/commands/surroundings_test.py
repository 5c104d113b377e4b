# SPDX-License-Identifier: Apache-2.0
"""Run commands in hostile environments: closed pipes, git hooks, files owned by another user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.importer.commands.sample_workspace import V1, SampleWorkspace, edited, make_workspace

_ROOT = Path(__file__).parents[3]
_ROW = edited(V1["torch/b.py"], row_20="row twenty")
_CLASH = {**V1, "torch/b.py": edited(V1["torch/b.py"], row_20="row 20 of upstream")}


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SampleWorkspace:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sample = make_workspace(tmp_path)
    sample.series("v1", {"row": {"torch/b.py": _ROW}})
    return sample


def _without_reader(
    sample: SampleWorkspace, *arguments: str, also_errors: bool = False
) -> tuple[int, str]:
    """Run import.py with a closed pipe as its output; return its exit status and standard error."""
    program = "import sys; from tools.importer.commands.main import main; sys.exit(main())"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", program, "--workspace", str(sample.root), *arguments],
        cwd=_ROOT,
        # Without PYTHONUNBUFFERED, Python buffers the output, so the write fails only at exit.
        env={
            **{name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        stdout=write,
        stderr=write if also_errors else subprocess.PIPE,
        check=False,
    )
    os.close(write)
    return done.returncode, (done.stderr or b"").decode()


@pytest.mark.parametrize("also_errors", [False, True])
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_import_whose_reader_has_gone_goes_on_to_its_end(
    sample: SampleWorkspace, more: tuple[str, ...], also_errors: bool
) -> None:
    tree = sample.release("v2", {**V1, "torch/a.py": "new\n" + V1["torch/a.py"]})
    arguments = ("--tag", "v2", "--origin", str(tree), *more)
    status, errors = _without_reader(sample, *arguments, also_errors=also_errors)
    assert (status, "Traceback" in errors, "BrokenPipe" in errors) == (0, False, False)
    assert (sample.root / "patches/torch/v2/row.patch").exists()
    assert sample.at_rest()


def test_a_stop_whose_reader_has_gone_is_a_stop(sample: SampleWorkspace) -> None:
    tree = sample.release("v2", _CLASH)
    assert _without_reader(sample, "--tag", "v2", "--origin", str(tree)) == (2, "")
    assert sample.conflict("torch/b.py").exists()
    assert _without_reader(sample, "status") == (2, "")


@pytest.mark.parametrize("arguments", [("--help",), ("drift", "--help")])
def test_help_without_a_reader_ends_quietly(
    sample: SampleWorkspace, arguments: tuple[str, ...]
) -> None:
    assert _without_reader(sample, *arguments) == (0, "")


def test_a_waiting_import_is_ignored_by_git_whatever_the_workspace_ignores(
    sample: SampleWorkspace,
) -> None:
    sample.git("init", "--quiet")
    sample.git("add", "--all")
    sample.git("commit", "--quiet", "--message=start")
    tree = sample.release("v2", _CLASH)
    assert sample.run("--tag", "v2", "--origin", str(tree)) == 2
    status = ["git", "status", "--porcelain"]
    assert subprocess.run(status, cwd=sample.root, capture_output=True, check=True).stdout == b""
    assert sample.run("abort") == 0
    assert sample.at_rest()


def test_a_hook_of_another_repository_leads_no_command_there(
    sample: SampleWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample.git("init", "--quiet")
    sample.git("add", "--all")
    sample.git("commit", "--quiet", "--message=start")
    index = tmp_path / "callers-index"
    index.write_bytes(b"no index that git would take")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "no-repository"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(index))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path))
    monkeypatch.setenv("GIT_PREFIX", "below/")
    monkeypatch.setenv("GIT_SSH_COMMAND", "ssh -p 2222")
    tree = sample.release("v2", {**V1, "torch/a.py": "new\n" + V1["torch/a.py"]})
    assert sample.run("--tag", "v2", "--origin", str(tree)) == 0
    assert index.read_bytes() == b"no index that git would take"
    # The command has restored the caller's environment.
    assert os.environ["GIT_DIR"] == str(tmp_path / "no-repository")


def test_the_network_of_the_person_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    from tools.importer.git_environment import without_callers_repository

    kept = ("GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_SSL_CAINFO")
    gone = ("GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_QUARANTINE_PATH", "GIT_EXTERNAL_DIFF")
    for name in (*kept, *gone):
        monkeypatch.setenv(name, "x")
    with without_callers_repository():
        assert [name for name in (*kept, *gone) if name in os.environ] == list(kept)
    assert all(os.environ[name] == "x" for name in gone)


@pytest.mark.parametrize("arguments", [("status",), ("abort",), ("continue",)])
def test_a_state_directory_that_others_may_fill_is_not_obeyed(
    sample: SampleWorkspace,
    tmp_path: Path,
    arguments: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = sample.root / ".import"
    (tmp_path / "elsewhere").mkdir()
    state.symlink_to(tmp_path / "elsewhere")
    assert sample.run(*arguments) == 1
    assert f"{state}: is a link. Move it away" in capsys.readouterr().err
    state.unlink()
    state.mkdir()
    state.chmod(0o777)
    assert sample.run(*arguments) == 1
    assert f"{state}: every user may write there" in capsys.readouterr().err


def test_a_journal_writes_nothing_outside_the_workspace(
    sample: SampleWorkspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = sample.root / ".import/publish"
    (stage / "new").mkdir(parents=True)
    (stage / "new/0").write_text("evil")
    move = {"path": "../victim", "before": None, "after": "0" * 64}
    (stage / "journal.json").write_text(
        json.dumps({"what": "x", "moves": [move], "made": [], "clears": []})
    )
    assert sample.run("status") == 1
    assert "'../victim' leads out of the workspace" in capsys.readouterr().err
    assert not (tmp_path / "victim").exists()


def test_a_cache_that_others_may_fill_is_not_used(
    sample: SampleWorkspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = tmp_path / "cache/torch_google/importer/files"
    files.mkdir(parents=True)
    files.chmod(0o777)
    tree = sample.release("v2", V1)
    assert sample.run("--tag", "v2", "--origin", str(tree)) == 1
    assert f"{files}: every user may write there" in capsys.readouterr().err


def test_a_backslash_upstream_matters_where_a_patch_has_one(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    upstream = sample.upstream / "repository"
    files = {**V1, "docs/a\\b.md": "odd\n"}
    for path, text in files.items():
        (upstream / path).parent.mkdir(parents=True, exist_ok=True)
        (upstream / path).write_text(text)
    person = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"], ["tag", "v2"]):
        subprocess.run(["git", *person, *arguments], cwd=upstream, check=True, capture_output=True)
    assert sample.run("--tag", "v2", "--origin", str(upstream)) == 0
    assert (sample.root / "patches/torch/v2/row.patch").exists()

    patch = sample.root / "patches/torch/v2/row.patch"
    diff = '--- /dev/null\n+++ "b/docs/a\\\\b.md"\n@@ -0,0 +1 @@\n+x\n'
    patch.write_text(patch.read_text() + diff)
    tree = sample.release("v3", V1)
    capsys.readouterr()
    assert sample.run("--tag", "v3", "--from", "v2", "--origin", str(tree)) == 1
    assert "'docs/a\\b.md' has a backslash" in capsys.readouterr().err
