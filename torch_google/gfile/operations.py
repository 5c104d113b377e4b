# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N802 - the names are those of GFile
"""The functions of GFile, for a path of any scheme.

They raise what `open()` and `os` raise: OSError and its subclasses, with the path and what to do next.
Directories are listed sorted; what is being written is not listed, since it is not there yet.
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
    """Open a file to read (`r`), write (`w`), append (`a`) or make (`x`); `b` for bytes, else text.

    What is written appears at `close()`, whole: a `with` that ends by an exception, or a process that is
    killed, leaves the older file. `a` writes a store's file anew, with more at its end; on this machine
    it is `open()`'s. `checksum` (sha256, sha512 or blake2b) is written to a file beside, and verified
    before anything is read: a wrong one raises ChecksumError. Raises LookupError for an unknown encoding.
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
        codecs.lookup(encoding)  # before anything is opened
    if action == "r":
        found = _verified(name, checksum) if checksum else system.open_to_read(name)
        if not text:
            return found
        return io.TextIOWrapper(found, encoding, errors, newline)
    made = system.open_to_write(name, action, checksum)
    if not text:
        return made
    wrapper = TextWriter if hasattr(made, "discard") else io.TextIOWrapper
    return wrapper(made, encoding, errors, newline)


def Exists(path: PathLike) -> bool:
    """Whether there is a file or a directory."""
    return filesystem_of(path).exists(os.fspath(path))


def IsDirectory(path: PathLike) -> bool:
    """Whether there is a directory."""
    return filesystem_of(path).is_directory(os.fspath(path))


def Stat(path: PathLike) -> FileStatus:
    """Return length, kind and time of change of what is there."""
    return filesystem_of(path).status(os.fspath(path))


def ListDir(path: PathLike) -> list[str]:
    """Return the names in a directory, sorted."""
    return list(filesystem_of(path).entries(os.fspath(path)))


def Glob(pattern: PathLike) -> list[str]:
    """Return the paths that a pattern matches, sorted: `*`, `?`, `[...]` in a name, `**` across them.

    Names that begin with a dot are matched by a dot only. `**` finds links, and does not follow them.
    """
    place = locate(pattern)
    if not _MAGIC.search(place.inner):
        return [str(place)] if Exists(str(place)) else []
    names = place.inner.split("/")
    first = next(index for index, name in enumerate(names) if _MAGIC.search(name))
    before = "/".join(names[:first])
    if names[:first] == [""]:
        before = "/"
    return glob_below(Location(place.scheme, before, place.chain), names[first:])


def glob_below(base: Location, patterns: list[str]) -> list[str]:
    """Return the paths below `base`, itself no pattern, whose names match, one after another; sorted."""
    found = sorted(set(_matches(base, patterns)), key=lambda each: each.inner)
    # `**` matches where the process is as well, which has no name here.
    return [str(each) for each in found if str(each)]


def Walk(top: PathLike) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield (directory, names of directories, names of files), a directory before what is in it.

    As with os.walk, a caller may take names out of the first list, and a link to a directory is named
    there, but what it leads to is not walked.
    """
    place, system = locate(top), filesystem_of(top)
    entries = system.entries(str(place))
    directories = [name for name, is_directory in entries.items() if is_directory]
    yield str(place), directories, [name for name in entries if not entries[name]]
    for name in directories:
        below = str(place.join(name))
        if not system.is_link(below):
            yield from Walk(below)


def MakeDirs(path: PathLike) -> None:
    """Make a directory and those above it; one that is there already is fine."""
    filesystem_of(path).make_directory(os.fspath(path), parents=True)


def MakeDir(path: PathLike) -> None:
    """Make one directory. Raises FileExistsError when it is there, FileNotFoundError for its parent."""
    filesystem_of(path).make_directory(os.fspath(path), parents=False)


def Copy(source: PathLike, target: PathLike, overwrite: bool = False) -> None:
    """Copy a file, within a scheme or across; the target appears whole."""
    if not overwrite and Exists(target):
        raise failure(errno.EEXIST, "cannot copy: it already exists", os.fspath(target))
    if IsDirectory(source):
        raise failure(errno.EISDIR, "cannot copy: it is a directory", os.fspath(source))
    with Open(source, "rb") as old, Open(target, "wb") as new:
        shutil.copyfileobj(old, new, 8 << 20)


def Rename(source: PathLike, target: PathLike, overwrite: bool = False) -> None:
    """Rename a file or a directory within a scheme.

    On this machine it is atomic; a store may copy and remove.
    """
    old, new = locate(source), locate(target)
    if (old.scheme, old.chain) != (new.scheme, new.chain):
        raise failure(errno.EXDEV, f"cannot rename {old} to another scheme", str(new))
    filesystem_of(source).rename(str(old), str(new), overwrite=overwrite)


def Remove(path: PathLike) -> None:
    """Remove a file. Raises IsADirectoryError for a directory."""
    filesystem_of(path).remove(os.fspath(path))


def Sweep(path: PathLike) -> None:
    """Remove what killed writers left in a directory; what is being written stays.

    What those of another machine left goes when it is a day old.
    """
    filesystem_of(path).sweep(os.fspath(path))


def DeleteRecursively(path: PathLike) -> None:
    """Remove a directory with everything below it, or a file."""
    filesystem_of(path).remove_tree(os.fspath(path))


def _verified(name: str, algorithm: str, *, last: bool = False) -> Any:
    """Return a reader of the very bytes that were verified, at their beginning."""
    place = locate(name)
    beside = str(place.parent.join(f"{place.name}.{algorithm}"))
    system = filesystem_of(name)
    with explained(f"cannot verify by {algorithm}", name), ExitStack() as opened:
        # The file may be replaced at any moment: what is open here was listed before that, or after.
        before = system.read_text(beside)
        file = opened.enter_context(system.open_to_read(name))
        found = checksums.digest(file, algorithm)
        after = system.read_text(beside)
        listed = [text for text in (before, after) if text is not None]
        if not listed:
            raise failure(errno.ENOENT, f"no {algorithm} is listed for {name}", beside)
        try:
            checksums.verify(name, found, "\n".join(listed), algorithm)
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
