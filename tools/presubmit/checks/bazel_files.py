# SPDX-License-Identifier: Apache-2.0
"""Lint and format BUILD, module and .bzl files with buildifier."""

from __future__ import annotations

import collections.abc
import json

from tools.presubmit import finding, programs, tree

_FIX = "run: ./bazelw run //tools/presubmit -- --fix"
_CHECK_FAILED = 4
# Two default warnings are disabled. unnamed-macro: our repository rules generate packages with
# fixed target names, so the macros that these packages call take no name. attr-licenses: `licenses`
# is a file group in these packages.
_WARNINGS = "-unnamed-macro,-attr-licenses"


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yield a finding for each misformatted file, lint warning or syntax error."""
    paths = files.starlark()
    if not paths:
        return
    done = programs.run(
        programs.buildifier(),
        ["-mode=check", "-lint=warn", f"-warnings={_WARNINGS}", "-format=json", *paths],
        root=files.root,
        ok=(0, 1, _CHECK_FAILED),
    )
    for file in json.loads(done.stdout)["files"]:
        path = file["filename"]
        if not file["valid"]:
            yield finding.Finding(
                path=path, what=_syntax_error(done.stderr, path), next_step="correct the syntax"
            )
        elif not file["formatted"]:
            yield finding.Finding(path=path, what="not formatted", next_step=_FIX)
        for warning in file["warnings"] or []:
            yield finding.Finding(
                path=path,
                line=warning["start"]["line"],
                what=f"{warning['category']}: {warning['message'].partition(chr(10))[0]}",
                next_step=f"see: {warning['url']}",
            )


def fix(files: tree.Tree) -> None:
    """Format files in place. Lint fixes are not applied, because some change a file's meaning."""
    paths = files.starlark()
    if paths:
        programs.run(programs.buildifier(), ["-mode=fix", *paths], root=files.root)


def _syntax_error(output: str, path: str) -> str:
    for line in output.splitlines():
        if line.startswith(f"{path}:"):
            return line.removeprefix(f"{path}:").strip()
    return "does not parse"
