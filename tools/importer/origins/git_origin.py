# SPDX-License-Identifier: Apache-2.0
"""The origin for git repositories, remote or local. The pin is a commit id."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tools.importer.archives.safe_path import check_link, check_path
from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.origins.cache import Cache
from tools.importer.origins.git_mirror import GitError, GitMirror
from tools.importer.origins.origin import NotHereError, Pin, Revision, optional_text, text_of
from tools.importer.report import Report
from tools.importer.snapshot import MODES, SYMLINK, Blob

KIND = "git"

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHORT = 12
_SHORT_COMMIT = re.compile(r"[0-9a-f]{7,39}")
_PEELED = "^{}"
_SUBMODULE = "160000"


class GitOrigin:
    """The git origin at `url`: a git URL, with or without `git+`, or a path."""

    title = "git"

    def __init__(self, url: str, cache: Cache, report: Report) -> None:
        self._url, self._cache, self._report = url, cache, report

    def find(self, revision: Revision) -> GitSnapshot:
        mirror = GitMirror(self._url, self._cache)
        try:
            with self._report.progress(f"Asking {mirror.url}"):
                name, commit = _resolve(mirror, revision)
            with self._report.progress(f"Fetching {revision.name} from {mirror.url}"):
                mirror.fetch(commit)
                # The id may be that of a tag object, so peel it to the commit.
                commit = (
                    mirror.read("rev-parse", ["--verify", f"{commit}^{{commit}}"]).decode().strip()
                )
        except GitError as error:
            if _COMMIT.fullmatch(revision.name) and "not our ref" in error.words:
                raise NotHereError(f"no commit {revision.name} in {mirror.url}") from error
            raise EnvironmentProblem(f"{mirror.url}: {error}") from error
        pin = {
            "kind": KIND,
            "tag": revision.tag,
            "url": mirror.url,
            "ref": name,
            "commit": commit,
        }
        return _snapshot(mirror, pin)

    def open(self, pin: Pin) -> GitSnapshot:
        commit = text_of(pin, "commit")
        if not _COMMIT.fullmatch(commit):
            raise UserError(f"the pin's commit is '{commit}', not 40 hex digits. Restore the pin")
        mirror = GitMirror(self._url, self._cache)
        if not mirror.has(commit):
            try:
                with self._report.progress(f"Fetching {commit[:_SHORT]} from {mirror.url}"):
                    mirror.fetch(commit)
            except GitError as error:
                raise _gone(mirror, pin, commit, error) from error
        return _snapshot(mirror, pin)


@dataclass(frozen=True)
class _Entry:
    mode: str
    oid: str


class GitSnapshot:
    """The tree of a commit. `repository` is the bare repository that contains the commit.

    The repository contains the entire history if the origin is local, otherwise only this commit.
    """

    natives = False

    def __init__(self, mirror: GitMirror, pin: Pin, commit: str) -> None:
        self._source = f"{mirror.url} at {commit[:_SHORT]}"
        self._git = mirror.git()
        self._entries: dict[str, _Entry] = {}
        self._submodules: list[str] = []
        self.pin = pin
        self.commit = commit
        self.label = optional_text(pin, "tag") or commit[:_SHORT]
        self.repository: Path = mirror.directory
        self._list(mirror.read("ls-tree", ["-r", "-z", "--full-tree", commit]))

    def paths(self) -> Collection[str]:
        return self._entries.keys()

    def read(self, path: str) -> Blob | None:
        entry = self._entries.get(path)
        if entry is None:
            return None
        # A single `git cat-file --batch` process serves all reads.
        try:
            _, _, _, data = self._git.get_object_data(entry.oid)
        except ValueError as error:
            raise EnvironmentProblem(
                f"{self._source}: {path}, blob {entry.oid}, cannot be read: {error}. Run git fsck there"
            ) from error
        if entry.mode == SYMLINK:
            check_link(path, data.decode("utf-8", "surrogateescape"), self._source)
        return Blob(bytes(data), entry.mode)

    def carries(self, path: str) -> bool:
        return not path.startswith(tuple(f"{name}/" for name in self._submodules))

    def _list(self, listing: bytes) -> None:
        for row in listing.split(b"\0")[:-1]:
            head, _, name = row.partition(b"\t")
            mode, _, oid = head.decode("ascii").split(" ")
            path = check_path(name.decode("utf-8", "surrogateescape"), self._source)
            if mode == _SUBMODULE:
                self._submodules.append(path)
            elif mode in MODES:
                self._entries[path] = _Entry(mode, oid)
            else:  # old repositories have mode 100664 for a regular file
                self._entries[path] = _Entry(MODES[0], oid)


def _snapshot(mirror: GitMirror, pin: Pin) -> GitSnapshot:
    commit = text_of(pin, "commit")
    try:
        return GitSnapshot(mirror, dict(pin), commit)
    except GitError as error:
        raise EnvironmentProblem(
            f"{mirror.directory}, the cached {mirror.url}: {error}. Delete it; it is fetched again"
        ) from error


def _resolve(mirror: GitMirror, revision: Revision) -> tuple[str, str]:
    """Return the full name and the peeled id of a ref.

    Raises NotHereError if the origin lacks it, and GitError if git fails.
    """
    if revision.ref is not None and _COMMIT.fullmatch(revision.ref):
        return revision.ref, revision.ref
    if revision.tag is not None:
        names = [f"refs/tags/{revision.tag}"]
    elif revision.ref is not None:
        names = [f"refs/heads/{revision.ref}", f"refs/tags/{revision.ref}", revision.ref]
    else:
        names = ["HEAD"]
    refs = mirror.refs(*names, *(name + _PEELED for name in names))
    for name in names:
        commit = refs.get(name + _PEELED) or refs.get(name)
        if commit:
            return name, commit
    if revision.ref is not None and _SHORT_COMMIT.fullmatch(revision.ref):
        commit = mirror.expand(revision.ref)
        if commit:
            return commit, commit
    known = [
        name for name in mirror.refs("refs/tags/*", "refs/heads/*") if not name.endswith(_PEELED)
    ]
    short = [name.split("/", 2)[2] for name in known]
    raise NotHereError(
        f"no {revision.name} among the {len(short)} refs of {mirror.url}", known=short
    )


def _gone(mirror: GitMirror, pin: Pin, commit: str, error: GitError) -> Exception:
    """Return the error for a missing pinned commit. It says whether the ref has moved."""
    name = optional_text(pin, "ref")
    try:
        refs = mirror.refs(name, name + _PEELED) if name else {}
    except GitError:
        return EnvironmentProblem(f"{mirror.url}: {error}")
    other = refs.get(f"{name}{_PEELED}") or refs.get(name or "")
    if other and other != commit:
        return UserError(
            f"{mirror.url}: {name} is {other}, the pin says {commit}, and that commit cannot be had"
            f" ({error.words}). Import {name} again, or name a mirror that has it"
        )
    return EnvironmentProblem(f"{mirror.url}: {error}")
