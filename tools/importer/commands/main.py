# SPDX-License-Identifier: Apache-2.0
"""Rebase our patches to a vendored project from one upstream release onto another.

The default command is `import`, as in `import.py --tag v2.14.1`.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import NoReturn, cast

from tools.importer.apply import ApplyError
from tools.importer.commands.context import Access, Command, Context, Scope
from tools.importer.errors import EnvironmentProblem, ExitCode, UserError
from tools.importer.git_environment import without_callers_repository
from tools.importer.ownership import check_own
from tools.importer.project import STATE, load_project, no_project, project_names
from tools.importer.report import JsonReport, Report, flush, make_report, tell
from tools.importer.session import lock, pending, read_unfinished, recover

Loader = Callable[[], Command]


def _in(module: str) -> Loader:
    """Return a loader that imports the command lazily; few commands need libcst, git or pip."""
    return lambda: cast(Command, importlib.import_module(f"tools.importer.commands.{module}"))


# The commands by name, in the order in which --help lists them.
COMMANDS: Mapping[str, Loader] = {
    "init": _in("init"),
    "import": _in("import_"),
    "continue": _in("continue_"),
    "skip": _in("skip"),
    "abort": _in("abort"),
    "undo": _in("undo"),
    "status": _in("status"),
    "sync": _in("sync"),
    "edit": _in("edit"),
    "refresh": _in("refresh"),
    "new": _in("new"),
    "drop": _in("drop"),
    "cherry-pick": _in("cherry_pick"),
    "settled": _in("settled"),
    "rewrites": _in("rewrites"),
    "verify": _in("verify"),
    "drift": _in("drift"),
    "metadata": _in("metadata"),
    "export": _in("export"),
    "vendor": _in("vendor"),
}

_DEFAULT = "import"
_FIRST_PROJECT = "torch"
_HELP = ("-h", "--help")

# OSErrors with these codes have external causes. Any other OSError is a bug in the importer.
_MACHINE = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.EMFILE,
    errno.ENFILE,
)
_EPILOG = """exit status:
  0  done
  1  something for you to put right; one line says what
  2  a conflict waits for you: see `import.py status`
  3  the machine could not do it: network, disk, a tool
  4  nothing to do
"""


def main(argv: Sequence[str] | None = None, commands: Mapping[str, Loader] = COMMANDS) -> int:
    """Parse the arguments, run the command, and return its exit status."""
    try:
        with without_callers_repository():
            return _main(list(sys.argv[1:] if argv is None else argv), commands)
    finally:
        flush(sys.stdout)  # argparse exits here after it has printed the help
        flush(sys.stderr)


def _main(arguments: list[str], commands: Mapping[str, Loader]) -> int:
    report = make_report(as_json="--json" in arguments)
    try:
        code = _run(arguments, commands, report)
        error = ""
    except (UserError, ApplyError) as problem:
        code, error = ExitCode.USER_ERROR, str(problem)
    except EnvironmentProblem as problem:
        code, error = ExitCode.ENVIRONMENT, str(problem)
    except OSError as problem:
        if problem.errno not in _MACHINE:
            raise
        code, error = ExitCode.ENVIRONMENT, str(problem)
    except KeyboardInterrupt:
        tell("import.py: interrupted", sys.stderr)
        return 130
    if error:
        tell(f"import.py: {error}", sys.stderr)
    if isinstance(report, JsonReport) and not report.answered:
        report.result({"error": error, "exit": int(code)} if error else {"exit": int(code)})
    return int(code)


def _run(argv: list[str], commands: Mapping[str, Loader], report: Report) -> ExitCode:
    shared, arguments = _shared_parser().parse_known_args(argv)
    arguments = _with_command(arguments, commands)
    # Import every command for --help, otherwise only the one to run.
    called = {name: load() for name, load in commands.items() if arguments[0] in (name, *_HELP)}
    args = _parser(called).parse_args(arguments)
    command = called[args.command]
    workspace = shared.workspace or os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    # Without Bazel or --workspace, use the checkout that contains this file.
    root = Path(workspace) if workspace else Path(__file__).resolve().parents[3]
    cwd = _called_from()
    workspace = (cwd / root).resolve()
    scope = getattr(command, "SCOPE", Scope.PROJECT)
    if getattr(args, "all_projects", False):
        scope = Scope.WORKSPACE
    if scope is Scope.WORKSPACE or (scope is Scope.STATE and not project_names(workspace)):
        if shared.project:
            raise UserError(f"{args.command} takes no --project. Leave it out")
        project = no_project(workspace)
    else:
        project = load_project(workspace, shared.project or _default_project(workspace))
    return _guarded(command, args, Context(project, report, shared.dry_run, cwd))


def _guarded(command: Command, args: argparse.Namespace, context: Context) -> ExitCode:
    """Recover from an interrupted command, then run this one; hold the lock if it writes files."""
    root, state = context.project.workspace, context.project.state
    access = getattr(command, "ACCESS", Access.WRITES)
    alone = access is not Access.READS and not context.dry_run
    check_own(state, "Move it away, or run this as its owner")
    with ExitStack() as held:
        if alone:
            held.enter_context(lock(state))
        if access is not Access.UNDOES and pending(state):
            # Recover even before a dry run, because the output would otherwise be wrong.
            with nullcontext() if alone else lock(state):
                line = recover(root, state)
            if line:
                context.report.say(line)
        return command.run(args, context)


def _called_from() -> Path:
    """Return the user's working directory, even if Bazel or tools/import.py has changed it."""
    directories = (
        os.environ.get(name) for name in ("IMPORT_PY_CALLED_FROM", "BUILD_WORKING_DIRECTORY")
    )
    return Path(next(filter(None, directories), None) or os.getcwd())


def _default_project(workspace: Path) -> str:
    """Return the unfinished command's project, or else the only project, or else torch."""
    try:
        unfinished = read_unfinished(workspace / STATE)
    except UserError:
        unfinished = None  # the command that needs the file reports this error
    known = project_names(workspace)
    if unfinished is not None and unfinished.project in known:
        return unfinished.project
    return known[0] if len(known) == 1 else _FIRST_PROJECT


def _with_command(arguments: list[str], commands: Mapping[str, Loader]) -> list[str]:
    if not arguments or arguments[0] in (*commands, *_HELP):
        return arguments or ["--help"]
    if arguments[0].startswith("-"):
        return [_DEFAULT, *arguments]
    near = difflib.get_close_matches(arguments[0], commands, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    raise UserError(f"no command '{arguments[0]}'.{hint} Use one of: {', '.join(commands)}")


class _Parser(argparse.ArgumentParser):
    """A parser whose errors exit with status 1, because 2 means a conflict."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}. See {self.prog} --help")


def _parser(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="import.py",
        description=(__doc__ or "").split("\n\n")[0],
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[_shared_parser()],
        allow_abbrev=False,
    )
    table = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in commands.items():
        own = table.add_parser(
            name,
            help=command.HELP,
            description=command.HELP,
            epilog="Options for all commands: see import.py --help",
            allow_abbrev=False,
        )
        command.add_arguments(own)
    return parser


def _shared_parser() -> argparse.ArgumentParser:
    """Return a parser for the options that are accepted before and after the command word."""
    parser = _Parser(prog="import.py", add_help=False, allow_abbrev=False)
    parser.add_argument(
        "--project", help="a folder of third_party (default: the unfinished command's, or torch)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON document")
    parser.add_argument("--dry-run", action="store_true", help="show everything, change nothing")
    parser.add_argument("--workspace", metavar="DIR", help="the workspace (default: this tool's)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
