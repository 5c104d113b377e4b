# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.importer.commands import (
    Access,
    Command,
    Context,
    abort,
    cherry_pick,
    continue_,
    drift,
    drop,
    edit,
    export,
    import_,
    init,
    metadata,
    new,
    refresh,
    rewrites,
    settled,
    skip,
    status,
    sync,
    undo,
    vendor,
    verify,
)
from tools.importer.commands.main import COMMANDS, main
from tools.importer.commands.sample_workspace import make_workspace
from tools.importer.errors import EnvironmentProblem, ExitCode, UserError
from tools.importer.session import Transaction, lock, pending
from tools.importer.session.faults import killed_at


class Sample:
    """A command whose behavior the test defines."""

    HELP = "for a test"

    def __init__(self, name: str = "import", access: Access = Access.WRITES) -> None:
        self.NAME, self.ACCESS = name, access
        self.seen: list[tuple[argparse.Namespace, Context]] = []
        self.raises: Exception | None = None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--tag")

    def run(self, args: argparse.Namespace, context: Context) -> ExitCode:
        self.seen.append((args, context))
        if self.raises:
            raise self.raises
        return ExitCode.NOTHING_TO_DO


@pytest.fixture
def workspace(tmp_path: Path) -> str:
    return str(make_workspace(tmp_path).root)


def run(workspace: str, *arguments: str, commands: tuple[Command, ...]) -> int:
    table = {command.NAME: lambda command=command: command for command in commands}
    return main(["--workspace", workspace, *arguments], table)


def test_the_shared_options_stand_anywhere_and_import_is_the_default(workspace: str) -> None:
    sample = Sample()
    for arguments in (
        ["--tag", "v2", "--dry-run"],
        ["--dry-run", "import", "--tag", "v2"],
        ["import", "--dry-run", "--tag=v2"],
    ):
        assert run(workspace, *arguments, commands=(sample,)) == 4
        args, context = sample.seen.pop()
        assert args.tag == "v2"
        assert context.dry_run
        assert context.project.name == "torch"
        assert str(context.project.workspace) == workspace


def test_the_workspace_and_the_callers_directory_come_from_the_environment(
    workspace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = Sample()
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", workspace)
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", "/nowhere")
    monkeypatch.setenv("IMPORT_PY_CALLED_FROM", str(tmp_path))
    assert main(["--tag", "v2"], {"import": lambda: sample}) == 4
    assert sample.seen[0][1].cwd == tmp_path
    assert str(sample.seen[0][1].project.workspace) == workspace


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UserError("the reason"), 1, "import.py: the reason\n"),
        (EnvironmentProblem("the reason"), 3, "import.py: the reason\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "/x"),
            3,
            "import.py: [Errno 28] No space left on device: '/x'\n",
        ),
    ],
)
def test_an_error_is_one_line_and_one_document(
    workspace: str, error: Exception, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = Sample()
    sample.raises = error
    assert run(workspace, "--tag", "v2", commands=(sample,)) == code
    assert capsys.readouterr() == ("", line)
    assert run(workspace, "--tag", "v2", "--json", commands=(sample,)) == code
    out, err = capsys.readouterr()
    assert json.loads(out) == {"error": line.removeprefix("import.py: ").strip(), "exit": code}
    assert err == line


def test_a_bug_keeps_its_traceback(workspace: str) -> None:
    sample = Sample()
    sample.raises = OSError(errno.EBADF, "a bug of ours")
    with pytest.raises(OSError, match="a bug of ours"):
        run(workspace, "--tag", "v2", commands=(sample,))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["statsu"], "no command 'statsu'. Did you mean 'status'?"),
        (["status", "--no"], "unrecognized arguments: --no. See import.py --help"),
        (["--project"], "argument --project: expected one argument"),
        (["--project", "tensor", "status"], "Projects that can be imported here: torch"),
        (["import"], "what to import? Give --tag, --ref or --origin"),
    ],
)
def test_a_bad_call_is_the_callers_mistake(
    workspace: str, arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--workspace", workspace, *arguments]) == 1
    err = capsys.readouterr().err
    assert line in err
    assert err.count("\n") == 1


def test_help_names_every_command_and_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    for name, load in COMMANDS.items():
        assert f"    {name}" in out
        assert load().HELP.partition(" ")[0] in out
    for code in ExitCode:
        assert f"\n  {code.value}  " in out


def test_every_command_of_this_package_is_listed_under_its_name() -> None:
    here: tuple[Command, ...] = (
        abort,
        cherry_pick,
        continue_,
        drift,
        drop,
        edit,
        export,
        import_,
        init,
        metadata,
        new,
        refresh,
        rewrites,
        settled,
        skip,
        status,
        sync,
        undo,
        vendor,
        verify,
    )
    assert {command.NAME: command for command in here} == {
        name: load() for name, load in COMMANDS.items()
    }


def test_a_command_loads_what_it_needs_and_no_more(workspace: str) -> None:
    code = (
        "import sys; from tools.importer.commands.main import main; "
        f"assert main(['--workspace', {workspace!r}, 'status']) == 0; "
        "print(sorted({'git', 'libcst', 'pip', 'rich', 'tools.importer.origins'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_commands_that_write_run_alone(workspace: str, capsys: pytest.CaptureFixture[str]) -> None:
    writes, reads = Sample(), Sample("look", Access.READS)
    with lock(Path(workspace) / ".import"):
        assert run(workspace, "--tag", "v2", commands=(writes, reads)) == 1
        assert "another import.py (process" in capsys.readouterr().err
        assert run(workspace, "--tag", "v2", "--dry-run", commands=(writes, reads)) == 4
        assert run(workspace, "look", commands=(writes, reads)) == 4
    assert run(workspace, "--tag", "v2", commands=(writes, reads)) == 4


@pytest.mark.parametrize("access", [Access.READS, Access.WRITES])
def test_every_command_finds_a_whole_tree(
    workspace: str, access: Access, capsys: pytest.CaptureFixture[str]
) -> None:
    root, state = Path(workspace), Path(workspace) / ".import"

    def publish() -> None:
        transaction = Transaction(root, state, what="a test")
        for name in "abcdef":
            transaction.write(name, b"new")
        transaction.publish()

    number = 0
    while not pending(state):
        assert killed_at(number, publish)
        number += 1
    assert not (root / "f").exists()
    undo = Sample("undo", Access.UNDOES)
    assert run(workspace, "undo", commands=(undo,)) == 4
    assert pending(state), "what undoes gets it as it is"
    sample = Sample("do", access)
    assert run(workspace, "do", commands=(sample,)) == 4
    assert (root / "f").read_bytes() == b"new"
    assert "finished what was interrupted: a test" in capsys.readouterr().out
    assert {path.name for path in state.iterdir()} == {".gitignore", "undo"}
