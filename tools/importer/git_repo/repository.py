# SPDX-License-Identifier: Apache-2.0
"""A git repository: read trees and blobs, write objects, and update a ref.

This module never touches the index or the working tree; see `checkout.py` for those.
"""

from __future__ import annotations

import datetime
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.git_repo.client import Client, problem
from tools.importer.snapshot import Blob

ZERO = "0" * 40
GITLINK = "160000"
TREE = "040000"
_ASKED = 500  # queries per batch: 20 KB fit in a pipe, so neither side can deadlock
STAGING = "import-"  # the prefix of temporary directories in the git directory


@dataclass(frozen=True)
class TreeEntry:
    """An entry of a git tree: the mode and the object id."""

    mode: str
    oid: str


@dataclass(frozen=True)
class Person:
    """The author of a commit."""

    name: str
    email: str

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>"


class Repository:
    """A local repository. `work_tree` is None if the repository is bare."""

    def __init__(self, git_dir: Path, work_tree: Path | None, *, network: bool = False) -> None:
        self.git_dir = git_dir
        self.work_tree = work_tree
        self.common_dir = _common_dir(git_dir)
        variables = {
            # These variables override the caller's environment and the current directory.
            "GIT_DIR": os.fspath(git_dir),
            "GIT_COMMON_DIR": os.fspath(self.common_dir),
            "GIT_OBJECT_DIRECTORY": os.fspath(self.common_dir / "objects"),
            "GIT_INDEX_FILE": os.fspath(git_dir / "index"),
        }
        if work_tree:
            variables["GIT_WORK_TREE"] = os.fspath(work_tree)
        self.git = Client(work_tree or git_dir, variables, network=network)
        self._reader: Any = None

    @classmethod
    def open(cls, path: Path) -> Repository:
        """Open the repository whose top-level directory is `path`.

        Raises UserError if there is no such repository.
        """
        path = path.resolve()
        if not path.is_dir():
            raise UserError(f"{path}: no such directory. Name a git repository")
        dot_git = path / ".git"
        if dot_git.is_dir():
            return cls(dot_git, path)._checked()
        if dot_git.is_file():  # `path` is a linked worktree or a submodule
            text = dot_git.read_text(encoding="utf-8", errors="surrogateescape").strip()
            return cls((path / text.removeprefix("gitdir: ")).resolve(), path)._checked()
        if (path / "HEAD").is_file() and (path / "objects").is_dir():
            return cls(path, None)._checked()
        above = next((str(up) for up in path.parents if (up / ".git").exists()), None)
        hint = f"It is inside {above}: name that" if above else "Clone one there, or git init"
        raise UserError(f"{path}: not the top of a git repository. {hint}")

    @property
    def path(self) -> Path:
        """Return the directory that identifies the repository in messages."""
        return self.work_tree or self.git_dir

    def find(self, name: str, kind: str = "commit") -> str | None:
        """Return the id that `name` resolves to, peeled to `kind`; None if there is none."""
        status, out, _ = self.git.attempt(
            # Use --end-of-options, because a name may start with a dash.
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            f"{name}^{{{kind}}}",
        )
        return out.decode().strip() if status == 0 else None

    def current_branch(self) -> str | None:
        """Return the full ref of HEAD, even if unborn; None if HEAD is detached."""
        status, out, _ = self.git.attempt("symbolic-ref", "--quiet", "HEAD")
        return _text(out).strip() if status == 0 else None

    def checked_out(self, ref: str) -> Path | None:
        """Return the working tree in which `ref` is checked out, if any."""
        work_tree: Path | None = None
        for line in _text(self.git.run("worktree", "list", "--porcelain", "-z")).split("\0"):
            key, _, value = line.partition(" ")
            if key == "worktree":
                work_tree = Path(value)
            elif key == "bare":
                work_tree = None
            elif key == "branch" and value == ref:
                return work_tree
        return None

    def files(self, treeish: str) -> dict[str, TreeEntry]:
        """Return all files in a tree, keyed by path."""
        return self._list(treeish, "-r")

    def files_at(self, commit: str | None, path: str) -> dict[str, TreeEntry]:
        """Return the files under the directory `path` of a commit; {} if it does not exist."""
        tree = self.directory(commit, path) if commit else None
        return self.files(tree) if tree else {}

    def directory(self, commit: str, path: str) -> str | None:
        """Return the id of a directory's tree in a commit, or None if it does not exist."""
        if not path:
            return self.find(commit, "tree")
        # -d lists only directories.
        out = self.git.run("ls-tree", "-d", "--full-tree", "-z", commit, "--", path)
        mode, _, rest = _text(out).partition(" ")
        return rest.split(" ")[1][:40] if mode == TREE else None

    def children(self, treeish: str) -> dict[str, TreeEntry]:
        """Return the direct entries of a tree, keyed by name."""
        return self._list(treeish)

    def blob(self, oid: str) -> bytes:
        """Return the bytes of one blob."""
        (data,) = self.blobs([oid])
        return data

    def blobs(self, oids: Sequence[str]) -> Iterator[bytes]:
        """Yield the bytes of blobs, in order. A single `git cat-file --batch` process is reused."""
        if self._reader is None:
            self._reader = self.git.start("cat-file", "--batch")
        done = False
        try:
            for start in range(0, len(oids), _ASKED):
                asked = oids[start : start + _ASKED]
                self._reader.stdin.write(b"".join(oid.encode() + b"\n" for oid in asked))
                self._reader.stdin.flush()
                for oid in asked:
                    yield self._answer(oid)
            done = True
        finally:
            if not done:  # discard git's process: its pipe contains unread replies
                self._reader.proc.kill()
                self._reader.proc.communicate()
                self._reader = None

    def read(self, entry: TreeEntry | None) -> Blob | None:
        """Return the file for a tree entry; None if the entry is None."""
        return Blob(self.blob(entry.oid), entry.mode) if entry else None

    def message(self, commit: str) -> str:
        """Return a commit's message."""
        return _text(self.git.run("log", "-1", "--format=%B", "--no-show-signature", commit, "--"))

    def write_blob(self, data: bytes) -> str:
        """Store a blob and return its id. Use BlobWriter for many blobs."""
        out = self.git.run("hash-object", "-w", "--no-filters", "--stdin", data=data)
        return out.decode().strip()

    def write_tree(self, files: Mapping[str, TreeEntry]) -> str:
        """Store a tree of existing blobs and return its id."""
        with self.staging() as directory:
            index = {"GIT_INDEX_FILE": os.fspath(directory / "index")}
            # -z turns off quoting. --index-info builds the index from ids, without reading files.
            self.git.run(
                "update-index", "-z", "--index-info", data=index_info(files), variables=index
            )
            return self.git.run("write-tree", variables=index).decode().strip()

    def changed_tree(self, commit: str, changes: Mapping[str, TreeEntry | None]) -> str:
        """Store the tree of `commit` with `changes` and return its id. None removes a file."""
        with self.staging() as directory:
            index = {"GIT_INDEX_FILE": os.fspath(directory / "index")}
            self.git.run("read-tree", commit, variables=index)
            self.git.run(
                "update-index", "-z", "--index-info", data=index_info(changes), variables=index
            )
            return self.git.run("write-tree", variables=index).decode().strip()

    def graft(self, commit: str | None, path: str, tree: str | None) -> str:
        """Return the root tree of `commit` with `tree` at `path`. None removes the directory.

        Only one new tree per level of `path` is written, so the size of the monorepo does not
        matter.
        """
        parts = path.split("/")
        levels: list[dict[str, TreeEntry]] = []
        for depth in range(len(parts)):
            below = "/".join(parts[:depth])
            here = self.directory(commit, below) if commit else None
            levels.append(self.children(here) if here else {})
        child = tree
        for name, level in zip(reversed(parts), reversed(levels), strict=True):
            level.pop(name, None)
            if child:
                level[name] = TreeEntry(TREE, child)
            child = self._make_tree(level) if level or name == parts[0] else None
        assert child is not None
        return child

    def commit(
        self,
        tree: str,
        parents: Iterable[str],
        message: str,
        *,
        author: Person,
        when: datetime.datetime,
        committer: Person | None = None,
    ) -> str:
        """Store a commit and return its id. `when` must be timezone-aware."""
        committer = committer or author
        date = f"@{int(when.timestamp())} {when:%z}"
        variables = {
            "GIT_AUTHOR_NAME": author.name,
            "GIT_AUTHOR_EMAIL": author.email,
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_NAME": committer.name,
            "GIT_COMMITTER_EMAIL": committer.email,
            "GIT_COMMITTER_DATE": date,
        }
        options = [word for parent in parents for word in ("-p", parent)]
        data = message.encode("utf-8", "surrogateescape")
        # Do not sign the commit, because a key with a passphrase would make an unattended job hang.
        out = self.git.run(
            "commit-tree", "--no-gpg-sign", *options, tree, data=data, variables=variables
        )
        return out.decode().strip()

    def move(self, ref: str, new: str, old: str | None, reason: str) -> None:
        """Move `ref` from `old` (None: no ref) to `new`. Raises UserError if it is not at `old`.

        This is the only step whose effect is visible to users. It is atomic, because git renames a
        lock file.
        """
        command = ("update-ref", "--no-deref", "-m", reason, ref, new, old or ZERO)
        # The identity that git writes to the reflog.
        who = {"GIT_COMMITTER_NAME": "importer", "GIT_COMMITTER_EMAIL": "importer"}
        status, _, stderr = self.git.attempt(*command, variables=who)
        if status == 0:
            return
        now = self.find(ref)
        if now != old:
            target = now[:12] if now else "gone"
            raise UserError(
                f"{self.path}: another process changed {ref}: it is now {target}; nothing was done. "
                "Run it again"
            )
        raise problem(command, self.path, status, stderr)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Yield a temporary directory on the repository's file system and delete it afterwards."""
        directory = Path(tempfile.mkdtemp(prefix=STAGING, dir=self.git_dir))
        try:
            yield directory
        finally:
            shutil.rmtree(directory)

    def close(self) -> None:
        """Stop the blob reader, if one is running."""
        if self._reader is not None:
            self._reader.stdin.close()
            self._reader.wait()
            self._reader = None

    def _answer(self, oid: str) -> bytes:
        head = self._reader.stdout.readline().split()
        if len(head) != 3:
            raise EnvironmentProblem(f"git cat-file in {self.path}: no object {oid}")
        size = int(head[2])
        data: bytes = self._reader.stdout.read(size + 1)
        if len(data) != size + 1:
            raise EnvironmentProblem(f"git cat-file in {self.path}: object {oid} is cut short")
        return data[:-1]

    def _list(self, treeish: str, *options: str) -> dict[str, TreeEntry]:
        # --full-tree ignores the current directory. -z turns off quoting.
        out = self.git.run("ls-tree", *options, "--full-tree", "-z", treeish)
        entries: dict[str, TreeEntry] = {}
        for line in out.split(b"\0")[:-1]:
            head, _, path = line.partition(b"\t")
            mode, _, oid = head.split(b" ")
            entries[os.fsdecode(path)] = TreeEntry(mode.decode(), oid.decode())
        return entries

    def _make_tree(self, level: Mapping[str, TreeEntry]) -> str:
        # --missing supports partial clones, in which other objects of the tree may be absent.
        out = self.git.run("mktree", "-z", "--missing", data=_mktree_lines(level))
        return out.decode().strip()

    def _checked(self) -> Repository:
        out = self.git.run("config", "--get", "extensions.objectFormat", accept=(0, 1))
        if out.strip() not in (b"", b"sha1"):
            raise UserError(
                f"{self.path}: its objects are {_text(out).strip()}, upstream's are sha1. "
                "Use a repository made with --object-format=sha1"
            )
        return self


def is_repository(path: Path) -> bool:
    """Return whether `path` is the top-level directory of a repository, bare or not."""
    return (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())


def index_info(entries: Mapping[str, TreeEntry | None]) -> bytes:
    """Return the input for `git update-index -z --index-info`; None removes a path.

    Removals come first, because a file may take the path of a removed directory.
    """
    rows = [
        (path, entry or TreeEntry("0", ZERO))
        for path, entry in sorted(entries.items(), key=lambda item: item[1] is not None)
    ]
    return b"".join(
        f"{entry.mode} {entry.oid}\t".encode() + os.fsencode(path) + b"\0" for path, entry in rows
    )


def _mktree_lines(level: Mapping[str, TreeEntry]) -> bytes:
    types = {TREE: "tree", GITLINK: "commit"}
    return b"".join(
        f"{entry.mode} {types.get(entry.mode, 'blob')} {entry.oid}\t".encode()
        + os.fsencode(name)
        + b"\0"
        for name, entry in level.items()
    )


def _common_dir(git_dir: Path) -> Path:
    """Return the shared git directory. A worktree's own directory has only HEAD and the index."""
    file = git_dir / "commondir"
    return (git_dir / file.read_text().strip()).resolve() if file.is_file() else git_dir


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
