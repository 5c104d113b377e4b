# SPDX-License-Identifier: Apache-2.0
"""Stores for tests. They take every name literally, and raise if a call would expand a pattern.

fsspec expands patterns in `expand_path` and `glob`. gfile calls neither: its Glob lists directories
and matches names itself.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.memory import MemoryFileSystem


class Strict(MemoryFileSystem):
    """fsspec's memory filesystem, with real directories. It raises if it must expand a pattern."""

    protocol = "strict"

    def expand_path(self, path: Any, *_: Any, **__: Any) -> Any:
        raise AssertionError(f"{path!r} is read as a pattern")

    def glob(self, path: Any, *_: Any, **__: Any) -> Any:
        raise AssertionError(f"{path!r} is read as a pattern")


class Objects(AsyncFileSystem):
    """An asynchronous object store, like S3: names imply directories, and `find` lists by prefix.

    `changes` records every requested change, as a verb and the names of the objects.
    """

    protocol = "objects"
    cachable = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.kept: dict[str, bytes] = {}
        self.changes: list[tuple[str, ...]] = []

    async def _expand_path(self, path: Any, *_: Any, **__: Any) -> Any:
        raise AssertionError(f"{path!r} is read as a pattern")

    async def _glob(self, path: Any, *_: Any, **__: Any) -> Any:
        raise AssertionError(f"{path!r} is read as a pattern")

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        if path in self.kept:
            content = self.kept[path]
            etag = hashlib.md5(content, usedforsecurity=False).hexdigest()
            return {"name": path, "type": "file", "size": len(content), "ETag": f'"{etag}"'}
        if not path or any(name.startswith(f"{path}/") for name in self.kept):
            return {"name": path, "type": "directory", "size": 0}
        raise FileNotFoundError(path)

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        if path in self.kept:
            return [await self._info(path)]
        start = f"{path}/" if path else ""
        children = {
            f"{start}{name.removeprefix(start).partition('/')[0]}"
            for name in self.kept
            if name.startswith(start)
        }
        if not children and path:
            raise FileNotFoundError(path)
        return [await self._info(name) for name in sorted(children)]

    async def _find(
        self, path: str, maxdepth: Any = None, withdirs: bool = False, **_: Any
    ) -> dict[str, Any]:
        # List by prefix, so that a listing of `run1` also returns `run10`.
        entries = {name: await self._info(name) for name in self.kept if name.startswith(path)}
        if withdirs:
            for name in [*entries]:
                while (name := name.rpartition("/")[0]) and name.startswith(path):
                    # As in s3fs, a directory shadows a file with the same name.
                    entries[name] = {"name": name, "type": "directory", "size": 0}
        return entries

    async def _rm_file(self, path: str, **_: Any) -> None:
        self.changes.append(("remove", path))
        if self.kept.pop(path, None) is None:
            raise FileNotFoundError(path)

    async def _cp_file(self, path1: str, path2: str, **_: Any) -> None:
        self.changes.append(("copy", path1, path2))
        path1 = path1.rstrip("/")  # s3fs and gcsfs also drop trailing slashes
        if path1 not in self.kept:
            raise FileNotFoundError(path1)
        self.kept[path2] = self.kept[path1]

    async def _put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        self.changes.append(("put", rpath))
        self.kept[rpath] = Path(lpath).read_bytes()

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Do nothing, because object names imply directories."""

    async def _mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Do nothing, because object names imply directories."""

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        if mode != "rb":
            raise io.UnsupportedOperation(mode)
        return _Reader(self.info(path), self.kept.get(path, b""))


class _Reader(io.BytesIO):
    """A reader of an object. As in s3fs, a directory can be opened and reads as empty."""

    def __init__(self, details: dict[str, Any], content: bytes) -> None:
        super().__init__(content)
        self.details = details
        self.size = len(content)
