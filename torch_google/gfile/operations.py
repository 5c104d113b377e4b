# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N802 - the function names follow Google's GFile API
"""GFile's functions, for paths with any scheme.

They raise the same errors as `open()` and `os`: OSError and its subclasses. The message names the
path and suggests a next step. Listings are sorted, and omit files that are still being written.
"""

from __future__ import annotations

import codecs
import errno
import fnmatch
import io
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, Any

from torch_google.gfile import checksum as checksums
from torch_google.gfile.failures import ChecksumError, explained, failure
from torch_google.gfile.filesystem import FileStatus
from torch_google.gfile.location import Location, PathLike, locate
from torch_google.gfile.schemes import filesystem_of
from torch_google.gfile.stream import TextWriter

_MODE = re.compile(r"[rwax][bt]?")
_MAGIC = re.compile(r"[*?[]")


def Open(
    path: PathLike,
    mode: str = "r",
    *,
    encoding: str = "utf-8",
    errors: str = "strict",
    newline: str | None = None,
    checksum: str | None = None,
) -> IO[Any]:
    """Open a file to read (`r`), write (`w`), append (`a`) or create (`x`); `b` means bytes.

    A written file appears at `close()`, when it is complete. If an exception escapes the `with`
    block, or the process is killed, the old file remains. Appending to a local file works as in
    `open()`; a file in a store is rewritten with the new data at its end. With `checksum` (sha256,
    sha512 or blake2b), writing also writes a checksum file next to the file, and reading first
    verifies the file: a mismatch raises ChecksumError. Raises LookupError for an unknown encoding.
    """
    if not _MODE.fullmatch(mode):
        raise ValueError(
            f"{os.fspath(path)}: mode '{mode}'; give r, w, a or x, with b for bytes. A file is read "
            "or written, not both"
        )
    if checksum is not None:
        checksums.check_algorithm(checksum)
    name = os.fspath(path)
    system = filesystem_of(name)
    action, text = mode[0], not mode.endswith("b")
    if action != "r" and locate(name).inner.endswith("/"):
        raise failure(errno.EISDIR, "cannot write: its name ends with a slash", name)
    if text:
        codecs.lookup(encoding)  # raise LookupError before opening a file
    if action == "r":
        reader = _verified(name, checksum) if checksum else system.open_to_read(name)
        if not text:
            return reader
        return io.TextIOWrapper(reader, encoding, errors, newline)
    writer = system.open_to_write(name, action, checksum)
    if not text:
        return writer
    wrapper = TextWriter if hasattr(writer, "discard") else io.TextIOWrapper
    return wrapper(writer, encoding, errors, newline)


def Exists(path: PathLike) -> bool:
    """Return whether a file or a directory exists."""
    return filesystem_of(path).exists(os.fspath(path))


def IsDirectory(path: PathLike) -> bool:
    """Return whether a directory exists."""
    return filesystem_of(path).is_directory(os.fspath(path))


def Stat(path: PathLike) -> FileStatus:
    """Return the length, kind and modification time of a file or directory."""
    return filesystem_of(path).status(os.fspath(path))


def ListDir(path: PathLike) -> list[str]:
    """Return the names in a directory, sorted."""
    return list(filesystem_of(path).entries(os.fspath(path)))


def Glob(pattern: PathLike) -> list[str]:
    """Return the sorted paths that match a pattern.

    `*`, `?` and `[...]` match within a name; `**` matches any number of directories. Only a literal
    dot matches a leading dot. `**` finds links to directories but does not follow them.
    """
    location = locate(pattern)
    if not _MAGIC.search(location.inner):
        return [str(location)] if Exists(str(location)) else []
    names = location.inner.split("/")
    first = next(index for index, name in enumerate(names) if _MAGIC.search(name))
    base = "/".join(names[:first])
    if names[:first] == [""]:
        base = "/"
    return glob_below(Location(location.scheme, base, location.chain), names[first:])


def glob_below(base: Location, patterns: list[str]) -> list[str]:
    """Return the sorted paths under `base` that match `patterns`, one pattern per component."""
    matches = sorted(set(_matches(base, patterns)), key=lambda each: each.inner)
    # `**` also matches the working directory itself, which would be an empty string here.
    return [str(each) for each in matches if str(each)]


def Walk(top: PathLike) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield (directory, directory names, file names), a directory before its contents.

    As with os.walk, the caller may remove directory names to skip those directories. Links to
    directories are listed among them, but not followed.
    """
    location, system = locate(top), filesystem_of(top)
    entries = system.entries(str(location))
    directories = [name for name, is_directory in entries.items() if is_directory]
    yield str(location), directories, [name for name in entries if not entries[name]]
    for name in directories:
        below = str(location.join(name))
        if not system.is_link(below):
            yield from Walk(below)


def MakeDirs(path: PathLike) -> None:
    """Create a directory and its parents, unless they already exist."""
    filesystem_of(path).make_directory(os.fspath(path), parents=True)


def MakeDir(path: PathLike) -> None:
    """Create a directory.

    Raises FileExistsError if it exists, or FileNotFoundError if its parent does not.
    """
    filesystem_of(path).make_directory(os.fspath(path), parents=False)


def Copy(source: PathLike, target: PathLike, overwrite: bool = False) -> None:
    """Copy a file, within or between schemes; the target appears only when complete."""
    if not overwrite and Exists(target):
        raise failure(errno.EEXIST, "cannot copy: it already exists", os.fspath(target))
    if IsDirectory(source):
        raise failure(errno.EISDIR, "cannot copy: it is a directory", os.fspath(source))
    with Open(source, "rb") as old, Open(target, "wb") as new:
        shutil.copyfileobj(old, new, 8 << 20)


def Rename(source: PathLike, target: PathLike, overwrite: bool = False) -> None:
    """Rename a file or a directory within a scheme.

    For local paths this is atomic; a store may copy the files and then remove the originals.
    """
    old, new = locate(source), locate(target)
    if (old.scheme, old.chain) != (new.scheme, new.chain):
        raise failure(errno.EXDEV, f"cannot rename {old} to another scheme", str(new))
    filesystem_of(source).rename(str(old), str(new), overwrite=overwrite)


def Remove(path: PathLike) -> None:
    """Remove a file. Raises IsADirectoryError for a directory."""
    filesystem_of(path).remove(os.fspath(path))


def Sweep(path: PathLike) -> None:
    """Remove files that killed writers left in a directory, but not files still being written.

    Leftovers from another machine are removed once they are a day old.
    """
    filesystem_of(path).sweep(os.fspath(path))


def DeleteRecursively(path: PathLike) -> None:
    """Remove a file, or a directory and everything in it."""
    filesystem_of(path).remove_tree(os.fspath(path))


def _verified(name: str, algorithm: str, *, last: bool = False) -> Any:
    """Open a file and verify its checksum. Return a reader that is positioned at its start."""
    location = locate(name)
    checksum_path = str(location.parent.join(f"{location.name}.{algorithm}"))
    system = filesystem_of(name)
    with explained(f"cannot verify by {algorithm}", name), ExitStack() as opened:
        # Another process may replace the file at any moment, so read the checksum file before and
        # after the file: one of its two versions lists the checksum of the file that was opened.
        before = system.read_text(checksum_path)
        file = opened.enter_context(system.open_to_read(name))
        digest = checksums.digest(file, algorithm)
        after = system.read_text(checksum_path)
        listed = [text for text in (before, after) if text is not None]
        if not listed:
            raise failure(errno.ENOENT, f"no {algorithm} is listed for {name}", checksum_path)
        try:
            checksums.verify(name, digest, "\n".join(listed), algorithm)
        except ChecksumError:
            if last or before == after:
                raise
            return _verified(name, algorithm, last=True)
        file.seek(0)
        opened.pop_all()
        return file


def _matches(base: Location, patterns: list[str]) -> Iterator[Location]:
    pattern, *rest = patterns
    if pattern == "**":
        yield from _matches(base, rest) if rest else iter([base])
    elif not _MAGIC.search(pattern):
        below = base.join(pattern)
        if rest:
            yield from _matches(below, rest)
        elif Exists(str(below)):
            yield below
        return
    directory = str(base) or os.curdir
    if not IsDirectory(directory):
        return
    system = filesystem_of(directory)
    for name, is_directory in system.entries(directory).items():
        if name.startswith(".") and not pattern.startswith("."):
            continue
        below = base.join(name)
        if pattern == "**":
            if is_directory and not system.is_link(str(below)):
                yield from _matches(below, patterns)
            elif not rest:
                yield below
        elif fnmatch.fnmatchcase(name, pattern):
            if not rest:
                yield below
            elif is_directory:
                yield from _matches(below, rest)
