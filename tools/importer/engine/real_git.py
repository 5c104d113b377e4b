# SPDX-License-Identifier: Apache-2.0
"""Test support: a bare git repository whose trees are read and written as in-memory files."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools.importer.snapshot import Blob

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


class RefusedByGit(AssertionError):
    """The error raised if a git command fails. The message is git's error output."""


class RealGit:
    """git plumbing in a bare repository, where line-ending and mode settings have no effect.

    Only `am` uses a working tree, because `git am` needs one.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._index = directory / "scratch-index"
        self._work_tree = directory / "work-tree"
        self("init", "-q", "--bare", ".")
        self("config", "gc.auto", "0")

    def __call__(self, *arguments: str, stdin: bytes = b"", check: bool = True) -> bytes:
        """Run git and return its output. With `check`, raise RefusedByGit if git fails."""
        return _checked(self._run(*arguments, stdin=stdin), check=check)

    def commit(self, branch: str, files: Mapping[str, Blob], message: str = "x") -> str:
        """Commit `files` as the entire tree to `branch`, which may be new. Return the commit id."""
        ref = f"refs/heads/{branch}"
        parent = self("rev-parse", "--verify", "-q", ref, check=False).decode().strip()
        stream = _commit(ref, files, message, parent)
        self("fast-import", "--quiet", "--force", stdin=stream + b"done\n")
        return self("rev-parse", ref).decode().strip()

    def files(self, tree: str) -> dict[str, Blob]:
        """Return the files of a commit or tree."""
        rows = self("ls-tree", "-r", "-z", "--full-tree", tree).split(b"\0")[:-1]
        files: dict[str, Blob] = {}
        for row in rows:
            head, _, name = row.partition(b"\t")
            mode, _, oid = head.decode().split(" ")
            data = self("cat-file", "blob", oid)
            files[name.decode("utf-8", "surrogateescape")] = Blob(data, mode)
        return files

    def applied(self, tree: str, patch: bytes) -> str:
        """Apply the patch to `tree` with `git apply`, and return the id of the resulting tree."""
        self("read-tree", tree)
        self("apply", "--cached", "--whitespace=nowarn", "-", stdin=patch)
        return self("write-tree").decode().strip()

    def diff(self, before: str, after: str, *options: str) -> bytes:
        """Return git's patch from one commit to the other, with full ids and binary data."""
        return self("diff-tree", "-p", "--binary", "--full-index", *options, before, after)

    def merge_file(self, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
        """Return the result of `git merge-file`; None if there is a conflict."""
        names = []
        for name, data in (("ours", ours), ("base", base), ("theirs", theirs)):
            (self.directory / f"text-{name}").write_bytes(data)
            names.append(f"text-{name}")
        done = self._run("merge-file", "-p", *names)
        # The exit status is the number of conflicts, or 255 for an error.
        _checked(done, check=done.returncode > 127)
        return done.stdout if done.returncode == 0 else None

    def am(self, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
        """Apply a patch to `ours` with `git am -3` and return the file; None if git stops."""
        stream = b""
        for branch, text, parent in (
            ("base", base, ""),
            ("theirs", theirs, "refs/heads/base"),
            ("ours", ours, ""),
        ):
            ref = f"refs/heads/{branch}"
            stream += b"reset %s\n" % ref.encode()
            stream += _commit(ref, {_FILE: Blob(text)}, "x", parent)
        self("fast-import", "--quiet", "--force", stdin=stream + b"done\n")
        mail = self("format-patch", "--stdout", "--full-index", "base..theirs")
        self._work_tree.mkdir(exist_ok=True)
        _checked(self._run("checkout", "-q", "-f", "--detach", "ours", work_tree=True), check=True)
        if self._run("am", "-q", "-3", "--keep-cr", stdin=mail, work_tree=True).returncode:
            shutil.rmtree(self.directory / "rebase-apply")
            return None
        return (self._work_tree / _FILE).read_bytes()

    def _run(
        self, *arguments: str, stdin: bytes = b"", work_tree: bool = False
    ) -> subprocess.CompletedProcess[bytes]:
        environment = _ALONE | {"GIT_INDEX_FILE": str(self._index)}
        if work_tree:
            environment |= {"GIT_DIR": str(self.directory), "GIT_WORK_TREE": str(self._work_tree)}
        return subprocess.run(
            ["git", *arguments],
            cwd=self._work_tree if work_tree else self.directory,
            env=environment,
            input=stdin,
            capture_output=True,
            check=False,
        )


def _checked(done: subprocess.CompletedProcess[bytes], *, check: bool) -> bytes:
    if check and done.returncode:
        raise RefusedByGit(f"git {done.args[1]}: {done.stderr.decode('utf-8', 'replace')}")
    return done.stdout


def _commit(ref: str, files: Mapping[str, Blob], message: str, parent: str) -> bytes:
    """Return a commit in the format of `git fast-import`."""
    out = [b"commit %s\nmark :1\ncommitter A <a@example.com> 1 +0000\n" % ref.encode()]
    out.append(_data(message.encode()))
    if parent:
        out.append(b"from %s\n" % parent.encode())
    out.append(b"deleteall\n")
    for path, blob in files.items():
        out.append(b"M %s inline %s\n" % (blob.mode.encode(), _quoted(path)))
        out.append(_data(blob.data))
    return b"".join(out)


def _data(data: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(data), data)


def _quoted(path: str) -> bytes:
    name = path.encode("utf-8", "surrogateescape")
    return b'"' + b"".join(b"\\%03o" % byte for byte in name) + b'"'
