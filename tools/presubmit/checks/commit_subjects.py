# SPDX-License-Identifier: Apache-2.0
"""Check that new commits' subjects are `area: imperative verb ...` in at most 72 characters."""

from __future__ import annotations

import collections.abc
import datetime
import re
import subprocess

from tools.presubmit import finding, tree

# Older commits have subjects in other forms. Author dates decide which commits are new, because
# they survive a rebase and exist in shallow clones.
_SINCE = int(datetime.datetime(2026, 11, 25, 2, tzinfo=datetime.UTC).timestamp())
_LONGEST = 72
_SUBJECT = re.compile(
    r"(?!Merge:)(?P<areas>[\w.][\w./+-]*(?:, [\w.][\w./+-]*)*): (?P<verb>[a-z][\w-]*)(?: .*\S)?"
)
_REVERT = re.compile(r'Revert ".+"')
# _OTHER_FORM matches third-person, past and -ing forms. It also matches the imperative verbs in
# _VERBS, which are allowed.
_OTHER_FORM = re.compile(r"\w+(?:ing|ed|[^su]s)")
_VERBS = frozenset(
    {"bring", "embed", "exceed", "feed", "need", "proceed", "seed", "speed", "string"}
)


def find(files: tree.Tree) -> collections.abc.Iterator[finding.Finding]:
    """Yield a finding for each new commit whose subject is malformed.

    Yield none if the tree is not a git work tree.
    """
    for commit, subject in _commits(files):
        what = fault(subject)
        if what:
            yield finding.Finding(
                path=commit,
                what=f"subject {subject!r}: {what}",
                next_step="reword it (git commit --amend, or git rebase --interactive)",
            )


def fault(subject: str) -> str:
    """Return what is wrong with a subject, or an empty string if it is well-formed."""
    if _REVERT.fullmatch(subject):
        return ""
    if len(subject) > _LONGEST:
        return f"{len(subject)} characters; the limit is {_LONGEST}"
    match = _SUBJECT.fullmatch(subject)
    if not match:
        return "expected `area: imperative verb ...`, in lower case"
    verb = match["verb"]
    if _OTHER_FORM.fullmatch(verb) and verb not in _VERBS:
        return f"'{verb}' is not the imperative of a verb"
    return ""


def _commits(files: tree.Tree) -> list[tuple[str, str]]:
    """Return (abbreviated hash, subject) for each new commit that is not a merge."""
    if not (files.root / ".git").exists():
        return []
    command = ["git", "log", "--no-merges", "--format=%at%x09%h%x09%s"]
    try:
        done = subprocess.run(
            command, cwd=files.root, capture_output=True, text=True, check=False, errors="replace"
        )
    except OSError as error:
        raise finding.EnvironmentProblem(f"cannot run git: {error}; install git") from error
    if done.returncode:
        raise finding.EnvironmentProblem(
            f"git log ended with {done.returncode}: {done.stderr.strip()}; run from a git work tree"
        )
    rows = (line.split("\t", 2) for line in done.stdout.splitlines())
    return [(commit, subject) for time, commit, subject in rows if int(time) >= _SINCE]
