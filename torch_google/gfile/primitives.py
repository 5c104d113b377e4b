# SPDX-License-Identifier: Apache-2.0
"""The calls of fsspec that take a name as it is.

fsspec's `rm`, `mv`, `copy`, `cat`, `get` and `put` read `*`, `?` and `[...]` in a name as a pattern: to
remove `run*` through them removes `run1` as well. So they are not called. A tree is listed, and then
each of its files is removed or copied by its exact name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from glob import has_magic
from inspect import signature
from typing import Any, TypeVar

_T = TypeVar("_T")
# Requests that are under way at once, for a store whose client is asynchronous.
_AT_ONCE = 64


@dataclass(frozen=True)
class Tree:
    """Everything below a directory, by fsspec's names; a directory before what is in it.

    `files` includes `markers`: empty objects such as `run1/`, which stand for a directory.
    """

    files: list[str]
    directories: list[str]
    markers: frozenset[str] = frozenset()

    @property
    def empty_directories(self) -> list[str]:
        """The directories with nothing in them."""
        used = {name.rstrip("/").rpartition("/")[0] for name in [*self.files, *self.directories]}
        return [name for name in self.directories if name.rstrip("/") not in used]


class Primitives:
    """The calls of one filesystem. `ask` makes a call, and makes it again after a transient failure."""

    def __init__(self, system: Any, ask: Callable[[Callable[[], Any]], Any]) -> None:
        self._system = system
        self._ask = ask

    def tree(self, name: str) -> Tree:
        """Return what is below a directory, or nothing if there is none."""
        self._system.invalidate_cache()
        try:
            if defines(self._system, "find"):
                entries = self._ask(lambda: self._system.find(name, withdirs=True, detail=True))
            else:
                entries = self._walked(name)
        except FileNotFoundError:
            entries = {}
        # A store that lists by prefix may name `run10` among what is in `run1`. The directory itself is
        # left out, and its marker is not: some stores have an empty file `run1/`.
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
        """Remove files; one that is gone already is fine, since a lost answer looks like that."""
        if _is_asynchronous(self._system):
            self._at_once([(name,) for name in names], self._system._rm_file, gone_is_fine=True)
            return
        for name in names:
            self._remove(self._system.rm_file, name)

    def remove_directories(self, names: list[str]) -> None:
        """Remove empty directories, the last one first; those that a store only implies are gone."""
        for name in reversed(names):
            if defines(self._system, "rmdir"):
                self._remove(self._system.rmdir, name)
            elif self.exists(name):
                # webhdfs, for one, removes directories as it removes files.
                self._remove(self._system.rm_file if has_magic(name) else self._system.rm, name)

    def exists(self, name: str) -> bool:
        """Return whether there is a file or a directory. fsspec's `exists` says no if it cannot tell."""
        try:
            self._ask(lambda: self._system.info(name))
        except FileNotFoundError:
            return False
        return True

    def make_directory(self, name: str) -> None:
        """Make one directory. Raises FileExistsError if the filesystem can tell that it exists."""
        if defines(self._system, "mkdir"):
            self._ask(lambda: self._system.mkdir(name, create_parents=False))
        else:
            self._ask(lambda: self._system.makedirs(name, exist_ok=True))

    def copy_files(self, pairs: list[tuple[str, str]]) -> None:
        """Copy files within the filesystem. Raises FileNotFoundError if one of them is not there."""
        if _is_asynchronous(self._system):
            self._at_once(pairs, self._system._cp_file, gone_is_fine=False)
            return
        for old, new in pairs:
            self._ask(lambda old=old, new=new: self._system.cp_file(old, new))  # type: ignore[misc]

    @property
    def renames(self) -> bool:
        """Whether the filesystem has a rename of its own, rather than fsspec's copy and removal."""
        return not _is_asynchronous(self._system) and defines(self._system, "mv")

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a directory in one step, if `renames`."""
        rename = self._system.mv
        # Some take a directory only if they are told that it is one.
        whole = {"recursive": True} if "recursive" in signature(rename).parameters else {}
        self._ask(lambda: rename(old, new, **whole))

    def _walked(self, top: str) -> dict[str, dict[str, Any]]:
        """Return the entries below a directory, by name, with one listing for each directory."""
        found: dict[str, dict[str, Any]] = {}
        waiting = [top]
        while waiting:
            directory = waiting.pop()
            try:
                entries = self._ask(lambda: self._system.ls(directory, detail=True))  # noqa: B023
            except FileNotFoundError:
                if directory == top:
                    raise
                continue  # removed since it was listed
            for entry in entries:
                name = entry["name"]
                if name.strip("/") == directory.strip("/"):
                    continue  # a directory's own marker
                if entry["type"] == "directory" and name not in found:
                    waiting.append(name)
                found[name] = entry
        return found

    def _remove(self, remove: Callable[[str], object], name: str) -> None:
        def removed() -> None:
            try:
                remove(name)
            except FileNotFoundError:
                return

        self._ask(removed)

    def _at_once(
        self,
        calls: Sequence[tuple[str, ...]],
        method: Callable[..., Awaitable[object]],
        *,
        gone_is_fine: bool,
    ) -> None:
        """Make calls some at a time; those that fail by a transient failure are made again."""
        from fsspec.asyn import sync

        for begin in range(0, len(calls), _AT_ONCE):
            waiting = calls[begin : begin + _AT_ONCE]

            async def gather() -> list[object]:
                coroutines = (method(*call) for call in waiting)  # noqa: B023
                return list(await asyncio.gather(*coroutines, return_exceptions=True))

            def made() -> None:
                nonlocal waiting
                results = sync(self._system.loop, gather)
                failed = [
                    (call, result)
                    for call, result in zip(waiting, results, strict=True)
                    if isinstance(result, BaseException)
                    and not (gone_is_fine and isinstance(result, FileNotFoundError))
                ]
                waiting = [call for call, _ in failed]
                if failed:
                    raise failed[0][1]

            self._ask(made)


def defines(system: Any, method: str) -> bool:
    """Return whether a filesystem has a method of its own, rather than fsspec's general one.

    A general one is made of other calls, and may read names as patterns or leave out what it could not
    list.
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

    while isinstance(system, DirFileSystem):  # it passes every call on
        system = system.fs
    return system
