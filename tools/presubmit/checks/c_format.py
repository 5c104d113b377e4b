# SPDX-License-Identifier: Apache-2.0
"""Check the format of C and C++ files with clang-format, in the style of .clang-format."""

from __future__ import annotations

import collections.abc
import re

from tools.presubmit import finding, programs, tree

_VIOLATION = re.compile(r"(?P<path>.+?):(?P<line>\d+):\d+: .*\[-Wclang-format-violations\]")


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yield a finding for each misformatted file, at the first line that would change."""
    paths = files.c_sources()
    if not paths:
        return
    done = programs.run(
        programs.clang_format(), ["--dry-run", "--Werror", "--style=file", *paths], root=files.root
    )
    reported = set()
    for line in done.stderr.splitlines():
        match = _VIOLATION.match(line)
        if match and match["path"] not in reported:
            reported.add(match["path"])
            yield finding.Finding(
                path=match["path"],
                line=int(match["line"]),
                what="not formatted",
                next_step="run: ./bazelw run //tools/presubmit -- --fix",
            )
    if done.returncode != 0 and not reported:
        raise finding.EnvironmentProblem(
            f"clang-format ended with {done.returncode}: {done.stderr.strip()}; see .clang-format"
        )


def fix(files: tree.Tree) -> None:
    """Format files in place."""
    paths = files.c_sources()
    if paths:
        programs.run(programs.clang_format(), ["-i", "--style=file", *paths], root=files.root)
