# SPDX-License-Identifier: Apache-2.0
"""Fetch an upstream project's pinned source tree, using the standard library, pip and git."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from third_party.pypi import fetch_wheel, host_pip, sdist
from tools.importer import UserError, file_digest, tree_hash
from tools.importer.archives import ArchiveSnapshot, write_tree
from tools.importer.project import Project
from tools.importer.snapshot import SYMLINK, Blob, Snapshot
from tools.importer.tree_pin import TreePin

_SECONDS = 60
_CHUNK = 1 << 20
_SUBMODULE = "160000"


def fetch_tree(project: Project, pin: TreePin, scratch: Path) -> Snapshot:
    """Fetch upstream's tree. Raises a UserError if that fails or the hash differs from the pin."""
    origin = pin.origin
    kind = str(origin.get("kind"))
    table: Mapping[str, Callable[[Mapping[str, object], Path], Path]] = {
        "sdist": _sdist,
        "wheel": _wheel,
        "archive": _archive,
        "tarball": lambda origin, _: Path(_text(origin, "path")),
    }
    try:
        if kind == "git":
            return _Git(origin, scratch)
        if kind == "tree":
            return _directory(origin, scratch)
        if kind not in table:
            raise UserError(
                f"the build cannot fetch an origin of kind '{kind}', only"
                f" {', '.join(sorted([*table, 'git', 'tree']))}. Import from one of those"
            )
        file = table[kind](origin, scratch)
        digest, expected = file_digest(file), _text(origin, "sha256")
        if digest != expected:
            raise UserError(
                f"{file.name}: sha256 is {digest}, the pin says {expected}. Distrust the origin"
            )
        write_tree(file, file.name, scratch / "tree.zip")
    except (
        UserError,
        OSError,
        sdist.SdistError,
        fetch_wheel.FetchError,
        host_pip.NoPipError,
        subprocess.CalledProcessError,
    ) as error:
        reason = error
        if isinstance(error, subprocess.CalledProcessError):
            lines = error.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
            reason = UserError(f"git exited with {error.returncode}: {lines[-1]}")
        raise UserError(f"{project.pin}: {pin.tag} of {project.name}: {reason}") from error
    tree = ArchiveSnapshot(scratch / "tree.zip", label=pin.tag, pin=dict(origin))
    return _WithoutRecord(tree) if kind == "wheel" else tree


def _sdist(origin: Mapping[str, object], scratch: Path) -> Path:
    return sdist.fetch(_text(origin, "project"), _text(origin, "version"), scratch).file


def _wheel(origin: Mapping[str, object], scratch: Path) -> Path:
    requirement = f"{_text(origin, 'project')}=={_text(origin, 'version')}"
    pin = fetch_wheel.Pin(
        requirement, _text(origin, "filename"), _text(origin, "sha256"), "the pin"
    )
    return fetch_wheel.fetch(pin, scratch)


def _archive(origin: Mapping[str, object], scratch: Path) -> Path:
    url, file = _text(origin, "url"), scratch / "archive"
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as source, file.open("wb") as out:
            while chunk := source.read(_CHUNK):
                out.write(chunk)
    except urllib.error.URLError as error:
        raise UserError(f"{url}: {error.reason}") from error
    return file


def _directory(origin: Mapping[str, object], scratch: Path) -> Snapshot:
    path, expected = Path(_text(origin, "path")), _text(origin, "hash")
    if not path.is_dir():
        raise UserError(
            f"{path}: no such directory. Import from an archive or git, which can be moved"
        )
    subprocess.run(
        ["tar", "--exclude=.git", "-cf", str(scratch / "tree.tar"), "-C", str(path), "."],
        check=True,
        capture_output=True,
    )
    copy = scratch / "copy"
    copy.mkdir()
    subprocess.run(
        ["tar", "-xf", str(scratch / "tree.tar"), "-C", str(copy)], check=True, capture_output=True
    )
    digest = tree_hash(copy)
    if digest != expected:
        raise UserError(f"{path}: the tree's hash is {digest}, the pin says {expected}")
    write_tree(scratch / "tree.tar", path.name, scratch / "tree.zip")
    return ArchiveSnapshot(scratch / "tree.zip", label="", pin=dict(origin))


class _WithoutRecord:
    """A wheel's tree without RECORD, because our patches invalidate it."""

    def __init__(self, below: ArchiveSnapshot) -> None:
        self._below = below
        self.label, self.commit, self.pin = below.label, below.commit, below.pin

    def paths(self) -> Collection[str]:
        return {path for path in self._below.paths() if not path.endswith(".dist-info/RECORD")}

    def read(self, path: str) -> Blob | None:
        return self._below.read(path)

    def carries(self, path: str) -> bool:
        return self._below.carries(path)


class _Git:
    """The tree of a commit, with the blobs as stored: git's filters and attributes do not apply."""

    def __init__(self, origin: Mapping[str, object], scratch: Path) -> None:
        self.label, self.pin = "", dict(origin)
        self.commit: str | None = _text(origin, "commit")
        self._directory = scratch / "git"
        self._git("init", "--quiet", "--bare", "--template=", str(self._directory), bare=False)
        url = _text(origin, "url")
        self._git("fetch", "--quiet", "--depth=1", "--no-tags", url, str(self.commit))
        listing = self._git("ls-tree", "-r", "-z", "--full-tree", str(self.commit))
        self._entries: dict[str, tuple[str, str]] = {}
        for row in listing.split(b"\0")[:-1]:
            head, _, name = row.partition(b"\t")
            mode, _, oid = head.decode("ascii").split(" ")
            if mode != _SUBMODULE:
                regular = mode if mode in ("100755", SYMLINK) else "100644"
                self._entries[name.decode("utf-8", "surrogateescape")] = (regular, oid)

    def paths(self) -> Collection[str]:
        return self._entries.keys()

    def read(self, path: str) -> Blob | None:
        if path not in self._entries:
            return None
        mode, oid = self._entries[path]
        return Blob(self._git("cat-file", "blob", oid), mode)

    def carries(self, path: str) -> bool:
        return True

    def _git(self, *arguments: str, bare: bool = True) -> bytes:
        where = [f"--git-dir={self._directory}"] if bare else []
        result = subprocess.run(["git", *where, *arguments], check=True, capture_output=True)
        return result.stdout


def _text(origin: Mapping[str, object], key: str) -> str:
    value = origin.get(key)
    if not isinstance(value, str):
        raise UserError(f"key 'origin': '{key}' is not a text. Restore it from version control")
    return value
