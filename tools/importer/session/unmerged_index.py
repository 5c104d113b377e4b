# SPDX-License-Identifier: Apache-2.0
"""Create a git repository around conflicting files, so that `git mergetool` can resolve them.

Its index contains three versions of each file, as after a conflicting merge: the base, upstream and
patch versions. They differ only between the conflict markers, because all other lines are already
merged. The repository is written without calling git, which may not be installed.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import struct
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath

from tools.importer.apply import split_lines
from tools.importer.snapshot import Blob

REPOSITORY = ".git"
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tautocrlf = false\n"

# The names of the temporary files that `git mergetool` creates when it merges a file.
_MERGETOOL = r"{stem}_(?:BACKUP|BASE|LOCAL|REMOTE)_\d+{suffix}"


def write_repository(directory: Path, files: Mapping[str, Blob]) -> None:
    """Write `directory`/.git. `files` maps paths to contents; only files with markers are added."""
    root = directory / REPOSITORY
    (root / "refs" / "heads").mkdir(parents=True)
    (root / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "config").write_text(_CONFIG)
    entries: list[bytes] = []
    for path, blob in sorted(files.items(), key=lambda item: _encoded(item[0])):
        versions = _versions(blob.data)
        for stage, data in enumerate(versions or (), start=1):
            oid = _write_blob(root / "objects", data)
            entries.append(_entry(_encoded(path), int(blob.mode, 8), oid, stage))
    (root / "objects").mkdir(exist_ok=True)
    body = b"DIRC" + struct.pack(">II", 2, len(entries)) + b"".join(entries)
    (root / "index").write_bytes(body + hashlib.sha1(body, usedforsecurity=False).digest())


def added_paths(directory: Path) -> Collection[str]:
    """Return the files that the user, or mergetool, has added to the index as resolved."""
    if not (directory / REPOSITORY).is_dir() or shutil.which("git") is None:
        return ()
    # Imported lazily, because few commands need git.
    from tools.importer.git_repo.client import Client

    client = Client(directory, {"GIT_DIR": str(directory / REPOSITORY)})
    rows = client.run("ls-files", "--stage", "-z").decode("utf-8", "surrogateescape").split("\0")
    return {path for head, _, path in (row.partition("\t") for row in rows) if head.endswith(" 0")}


def is_mergetools(path: str, files: Collection[str]) -> bool:
    """Return whether `path` is in .git or is a temporary file that `git mergetool` creates."""
    if path.split("/")[0] == REPOSITORY:
        return True
    name = PurePosixPath(path)
    for file in map(PurePosixPath, files):
        pattern = _MERGETOOL.format(stem=re.escape(file.stem), suffix=re.escape(file.suffix))
        if name.parent == file.parent and (
            name.name == f"{file.name}.orig" or re.fullmatch(pattern, name.name)
        ):
            return True
    return False


def _versions(marked: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Split text with conflict markers into the base, upstream and patch versions.

    Return None if a marker is missing.
    """
    versions: tuple[list[bytes], ...] = ([], [], [])
    part = 0  # 0: outside markers; 1, 2, 3: in the lines of upstream, base, patch
    conflicts = 0
    for line in split_lines(marked):
        step = _STEPS.get((part, line[:8] if part != 2 else line))
        if step is not None:
            part = step
            conflicts += step == 0
        elif part == 0:
            for version in versions:
                version.append(line)
        else:
            versions[(1, 0, 2)[part - 1]].append(line)
    if part or not conflicts:
        return None
    base, ours, theirs = (b"".join(lines) for lines in versions)
    return base, ours, theirs


_STEPS: Mapping[tuple[int, bytes], int] = {
    (0, b"<<<<<<< "): 1,
    (1, b"||||||| "): 2,
    (2, b"=======\n"): 3,
    (3, b">>>>>>> "): 0,
}


def _write_blob(objects: Path, data: bytes) -> bytes:
    full = b"blob %d\0" % len(data) + data
    oid = hashlib.sha1(full, usedforsecurity=False).digest()
    file = objects / oid.hex()[:2] / oid.hex()[2:]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(zlib.compress(full))
    return oid


def _entry(path: bytes, mode: int, oid: bytes, stage: int) -> bytes:
    """Return an entry of git's index, version 2. Its stat data is zero, so git rereads the file."""
    flags = stage << 12 | min(len(path), 0xFFF)
    entry = struct.pack(">6I", 0, 0, 0, 0, 0, 0) + struct.pack(">4I", mode, 0, 0, 0)
    entry += oid + struct.pack(">H", flags) + path
    return entry + b"\0" * (8 - len(entry) % 8)


def _encoded(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
