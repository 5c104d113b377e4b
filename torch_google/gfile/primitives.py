# SPDX-License-Identifier: Apache-2.0
"""fsspec calls that take every name literally.

fsspec's `rm`, `mv`, `copy`, `cat`, `get` and `put` expand `*`, `?` and `[...]` in a name: removing
a file named `run*` also removes `run1`. So this module does not call their generic versions. It
lists a tree, then removes or copies each file by its exact name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from glob import has_magic
from inspect import signature
from typing import Any, TypeVar

_T = TypeVar("_T")
# The number of concurrent requests to a store that has an asynchronous client.
_CONCURRENCY = 64


@dataclass(frozen=True)
class Tree:
    """All files and directories under a directory, as fsspec names them; parents come first.

    `files` includes `markers`: empty objects such as `run1/` that represent a directory.
    """

    files: list[str]
    directories: list[str]
    markers: frozenset[str] = frozenset()

    @property
    def empty_directories(self) -> list[str]:
        """The tree's empty directories."""
        used = {name.rstrip("/").rpartition("/")[0] for name in [*self.files, *self.directories]}
        return [name for name in self.directories if name.rstrip("/") not in used]


class Primitives:
    """Operations on a filesystem that take names literally. `ask` makes a call, with retries."""

    def __init__(self, system: Any, ask: Callable[[Callable[[], Any]], Any]) -> None:
        self._system = system
        self._ask = ask

    def tree(self, name: str) -> Tree:
        """Return the tree under a directory; it is empty if the directory does not exist."""
        self._system.invalidate_cache()
        try:
            if defines(self._system, "find"):
                entries = self._ask(lambda: self._system.find(name, withdirs=True, detail=True))
            else:
                entries = self._walked(name)
        except FileNotFoundError:
            entries = {}
        # A store that lists by prefix may return `run10` for `run1`: omit such names. Also omit the
        # directory itself, but not its marker, an empty object named `run1/` in some stores.
        own = name.strip("/")
        start = f"{own}/" if own else ""
        files, directories = [], []
        for each in sorted(entries):
            if not each.lstrip("/").startswith(start):
                continue
            if entries[each]["type"] != "directory":
                files.append(each)
            elif each.strip("/") != own:
                directories.append(each)
        markers = {each for each in files if each.endswith("/") and not entries[each]["size"]}
        return Tree(files, directories, frozenset(markers))

    def remove_files(self, names: list[str]) -> None:
        """Remove files. A missing file is not an error: an earlier attempt may have removed it."""
        if _is_asynchronous(self._system):
            self._run_concurrently(
                [(name,) for name in names], self._system._rm_file, ignore_missing=True
            )
            return
        for name in names:
            self._remove(self._system.rm_file, name)

    def remove_directories(self, names: list[str]) -> None:
        """Remove empty directories, in reverse order. A missing directory is not an error."""
        for name in reversed(names):
            if defines(self._system, "rmdir"):
                self._remove(self._system.rmdir, name)
            elif self.exists(name):
                # Some filesystems, such as webhdfs, lack rmdir and remove directories with the
                # call that removes files.
                self._remove(self._system.rm_file if has_magic(name) else self._system.rm, name)

    def exists(self, name: str) -> bool:
        """Return whether a name exists. Unlike fsspec's `exists`, raise if the request fails."""
        try:
            self._ask(lambda: self._system.info(name))
        except FileNotFoundError:
            return False
        return True

    def make_directory(self, name: str) -> None:
        """Create one directory. Raises FileExistsError if the filesystem reports that it exists."""
        if defines(self._system, "mkdir"):
            self._ask(lambda: self._system.mkdir(name, create_parents=False))
        else:
            self._ask(lambda: self._system.makedirs(name, exist_ok=True))

    def copy_files(self, pairs: list[tuple[str, str]]) -> None:
        """Copy files within the filesystem. Raises FileNotFoundError if one does not exist."""
        if _is_asynchronous(self._system):
            self._run_concurrently(pairs, self._system._cp_file, ignore_missing=False)
            return
        for old, new in pairs:
            self._ask(lambda old=old, new=new: self._system.cp_file(old, new))  # type: ignore[misc]

    @property
    def renames(self) -> bool:
        """Whether the filesystem has a native rename, rather than fsspec's copy-and-remove."""
        return not _is_asynchronous(self._system) and defines(self._system, "mv")

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a directory in one step. Only valid if `renames` is true."""
        rename = self._system.mv
        # Some filesystems rename a directory only if `recursive` is set.
        options = {"recursive": True} if "recursive" in signature(rename).parameters else {}
        self._ask(lambda: rename(old, new, **options))

    def _walked(self, top: str) -> dict[str, dict[str, Any]]:
        """Return the entries below a directory, keyed by name. Sends one request per directory."""
        entries_by_name: dict[str, dict[str, Any]] = {}
        waiting = [top]
        while waiting:
            directory = waiting.pop()
            try:
                entries = self._ask(lambda: self._system.ls(directory, detail=True))  # noqa: B023
            except FileNotFoundError:
                if directory == top:
                    raise
                continue  # the entry was removed after it was listed
            for entry in entries:
                name = entry["name"]
                if name.strip("/") == directory.strip("/"):
                    continue  # the entry is the directory's own marker
                if entry["type"] == "directory" and name not in entries_by_name:
                    waiting.append(name)
                entries_by_name[name] = entry
        return entries_by_name

    def _remove(self, remove: Callable[[str], object], name: str) -> None:
        def removed() -> None:
            try:
                remove(name)
            except FileNotFoundError:
                return

        self._ask(removed)

    def _run_concurrently(
        self,
        calls: Sequence[tuple[str, ...]],
        method: Callable[..., Awaitable[object]],
        *,
        ignore_missing: bool,
    ) -> None:
        """Call `method` concurrently, in batches, and retry the calls that fail transiently."""
        from fsspec.asyn import sync

        for begin in range(0, len(calls), _CONCURRENCY):
            waiting = calls[begin : begin + _CONCURRENCY]

            async def gather() -> list[object]:
                coroutines = (method(*call) for call in waiting)  # noqa: B023
                return list(await asyncio.gather(*coroutines, return_exceptions=True))

            def run_batch() -> None:
                nonlocal waiting
                results = sync(self._system.loop, gather)
                failed = [
                    (call, result)
                    for call, result in zip(waiting, results, strict=True)
                    if isinstance(result, BaseException)
                    and not (ignore_missing and isinstance(result, FileNotFoundError))
                ]
                waiting = [call for call, _ in failed]
                if failed:
                    raise failed[0][1]

            self._ask(run_batch)


def defines(system: Any, method: str) -> bool:
    """Return whether a filesystem implements a method, rather than inheriting fsspec's generic one.

    A generic method combines other calls, and may expand patterns or skip entries on errors.
    """
    from fsspec import AbstractFileSystem
    from fsspec.asyn import AsyncFileSystem

    system = _unwrapped(system)
    if isinstance(system, AsyncFileSystem):
        own = getattr(type(system), f"_{method}", None)
        return own is not None and own is not getattr(AsyncFileSystem, f"_{method}", None)
    if method in vars(system):
        return True
    own = getattr(type(system), method, None)
    return own is not None and own is not getattr(AbstractFileSystem, method, None)


def _is_asynchronous(system: Any) -> bool:
    from fsspec.asyn import AsyncFileSystem

    return isinstance(_unwrapped(system), AsyncFileSystem)


def _unwrapped(system: Any) -> Any:
    from fsspec.implementations.dirfs import DirFileSystem

    while isinstance(system, DirFileSystem):  # DirFileSystem forwards every call
        system = system.fs
    return system
