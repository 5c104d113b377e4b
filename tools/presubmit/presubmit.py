# SPDX-License-Identifier: Apache-2.0
"""Check the work tree: `./bazelw run //tools/presubmit` (add `-- --fix` to apply formatters)."""

from __future__ import annotations

import argparse
import collections.abc
import os
import pathlib
import sys

from tools.presubmit import checks, finding, report, tree

CLEAN, FINDINGS, ENVIRONMENT = 0, 1, 3


def main(argv: collections.abc.Sequence[str] | None = None) -> int:
    """Run the checks. Return 1 if there are findings, else 3 if a check could not run, else 0."""
    arguments = _parser().parse_args(argv)
    if arguments.list:
        for check in checks.CHECKS:
            print(f"{check.name:<12} {check.about}")
        return CLEAN
    chosen = [c for c in checks.CHECKS if not arguments.only or c.name in arguments.only]
    shown = report.Report(sys.stdout, total=len(chosen))
    try:
        files = tree.Tree.of_git(_root(arguments.root))
    except finding.EnvironmentProblem as problem:
        shown.line(f"presubmit: {problem}")
        return ENVIRONMENT
    if arguments.fix:
        _fix(chosen, files, shown)
        files = tree.Tree(files.root, files.paths)  # drop file contents cached before the fix
    return run(chosen, files, shown)


def run(
    chosen: collections.abc.Sequence[checks.Check], files: tree.Tree, shown: report.Report
) -> int:
    """Run all checks, even if some of them cannot run, and then print all findings."""
    findings: list[finding.Finding] = []
    problems: list[str] = []
    for check in chosen:
        with shown.running(check.name) as row:
            try:
                own = sorted(set(check.find(files)))
            except finding.EnvironmentProblem as problem:
                row.outcome = "could not run"
                problems.append(f"presubmit {check.name}: {problem}")
            else:
                row.outcome = f"{len(own)} findings" if own else "ok"
                findings.extend(own)
    for line in [*findings, *problems]:
        shown.line(line)
    shown.line(
        f"presubmit: {len(files.paths)} files, {len(chosen)} checks, "
        f"{len(findings)} findings, {len(problems)} could not run"
    )
    if findings:
        return FINDINGS
    return ENVIRONMENT if problems else CLEAN


def _fix(
    chosen: collections.abc.Sequence[checks.Check], files: tree.Tree, shown: report.Report
) -> None:
    for check in chosen:
        if check.fix is None:
            continue
        try:
            check.fix(files)
        except finding.EnvironmentProblem as problem:
            shown.line(f"presubmit {check.name}: {problem}")


def _root(argument: str | None) -> pathlib.Path:
    # `bazel run` starts a program in its runfiles folder, and sets this variable to the path of the
    # work tree.
    return pathlib.Path(argument or os.environ.get("BUILD_WORKSPACE_DIRECTORY") or os.getcwd())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="presubmit", description=__doc__)
    names = [check.name for check in checks.CHECKS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="CHECK", help="run only these")
    parser.add_argument("--fix", action="store_true", help="first apply safe fixes")
    parser.add_argument("--list", action="store_true", help="list the checks and stop")
    parser.add_argument("--root", help="the work tree (default: the one bazel runs from)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
