# SPDX-License-Identifier: Apache-2.0
"""Test support: run merges with `git merge-file`, and with `git am -3` as mailed patches."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

_FILE = "file.py"
_ALONE = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "LC_ALL": "C",
    "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
}


class GitMerges:
    """A git repository in `directory`, reused for many merges."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._git("init", "-q", ".")
        self._git("config", "gc.auto", "0")

    def merge_file(self, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
        """Return the merged text; None if it has conflicts."""
        scratch = self._directory / ".git"
        names = []
        for name, data in (("ours", ours), ("base", base), ("theirs", theirs)):
            (scratch / f"text-{name}").write_bytes(data)
            names.append(f".git/text-{name}")
        done = self._run("merge-file", "-p", *names)
        assert done.returncode < 128, done.stderr
        return done.stdout if done.returncode == 0 else None

    def am(self, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
        """Mail the patch from `base` to `theirs` and apply it to `ours`; None if git stops."""
        stream = [
            *_commit(b"base", base),
            *_commit(b"theirs", theirs, b"from refs/heads/base\n"),
            *_commit(b"ours", ours),
        ]
        self._git("fast-import", "--quiet", "--force", stdin=b"".join(stream))
        mail = self._git("format-patch", "--stdout", "--full-index", "base..theirs")
        self._git("checkout", "-q", "-f", "--detach", "ours")
        if self._run("am", "-q", "-3", "--keep-cr", stdin=mail).returncode:
            shutil.rmtree(self._directory / ".git/rebase-apply")
            return None
        return (self._directory / _FILE).read_bytes()

    def _git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = self._run(*arguments, stdin=stdin)
        assert done.returncode == 0, f"git {arguments[0]}: {done.stderr!r}"
        return done.stdout

    def _run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["git", *arguments],
            cwd=self._directory,
            env=_ALONE,
            input=stdin,
            capture_output=True,
            check=False,
        )


def _commit(branch: bytes, text: bytes, parent: bytes = b"") -> Sequence[bytes]:
    return (
        b"reset refs/heads/%s\n" % branch,
        b"commit refs/heads/%s\ncommitter A <a@example.com> 1 +0000\ndata 1\nx\n" % branch,
        parent or b"deleteall\n",
        b"M 100644 inline %s\ndata %d\n%s\n" % (_FILE.encode(), len(text), text),
    )
