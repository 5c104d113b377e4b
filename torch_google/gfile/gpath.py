# SPDX-License-Identifier: Apache-2.0
"""GPath: an etils.epath path for every scheme that gfile supports.

Once this module is imported, `epath.Path("memory://a")` also returns a GPath. epath still handles
its own schemes: gs, s3 and az.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import IO, Any
from urllib.parse import quote, unquote

from etils import epath
from etils.epath.stat_utils import StatResult

from torch_google.gfile import operations
from torch_google.gfile.location import Location, PathLike, locate
from torch_google.gfile.schemes import filesystem_of

# The first component of a path with a scheme: `SCHEME:`, or `SCHEME@CHAIN:` with the chain
# percent-encoded.
_SCHEME_PART = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(@[^:]*)?:")
_SCHEMES = ("file", "http", "https", "memory", "zip")


class GPath(epath.Path):
    """A path with the methods of pathlib and epath.

    The first component is the scheme, including any chain: `memory://a/b` has the parts `memory:`,
    `a`, `b`, and the first part of `zip://a::x.zip` includes the archive. `str()` and `os.fspath()`
    return the path in its usual form.
    """

    def __new__(cls, *parts: PathLike) -> GPath:
        return super().__new__(cls, *(_as_part(part) for part in parts))

    def __fspath__(self) -> str:
        return str(self._location)

    def __str__(self) -> str:
        return str(self._location)

    def __repr__(self) -> str:
        return f"GPath({str(self)!r})"

    def as_uri(self) -> str:
        return str(self) if self._location.scheme else super().as_uri()

    def __truediv__(self, below: PathLike) -> GPath:
        return self.joinpath(below)

    def joinpath(self, *below: PathLike) -> GPath:
        return type(self)(self, *below)

    def exists(self) -> bool:
        return operations.Exists(self)

    def is_dir(self) -> bool:
        return operations.IsDirectory(self)

    def is_file(self) -> bool:
        return self.exists() and not self.is_dir()

    def iterdir(self) -> Iterator[GPath]:
        for name in operations.ListDir(self):
            yield self / name

    def glob(self, pattern: str) -> Iterator[GPath]:
        # Wildcards are special only in `pattern`; the names in this path are literal.
        names = [*pathlib.PurePosixPath(pattern).parts] or [""]
        for match in operations.glob_below(self._location, names):
            yield type(self)(match)

    def rglob(self, pattern: str) -> Iterator[GPath]:
        return self.glob(f"**/{pattern}")

    def walk(
        self, *, top_down: bool = True, on_error: Callable[[OSError], object] | None = None
    ) -> Iterator[tuple[GPath, list[str], list[str]]]:
        try:
            triples = operations.Walk(self)
            for top, directories, files in triples if top_down else reversed(list(triples)):
                yield type(self)(top), directories, files
        except OSError as error:
            if on_error is not None:
                on_error(error)

    def expanduser(self) -> GPath:
        return self if self._location.scheme else type(self)(os.path.expanduser(str(self)))

    def resolve(self, strict: bool = False) -> GPath:
        if strict:
            self.stat()
        return self if self._location.scheme else type(self)(os.path.realpath(str(self)))

    def open(
        self,
        mode: str = "r",
        encoding: str | None = None,
        errors: str | None = None,
        **kwargs: Any,
    ) -> IO[Any]:
        return operations.Open(
            self, mode, encoding=encoding or "utf-8", errors=errors or "strict", **kwargs
        )

    def stat(self) -> StatResult:
        status = operations.Stat(self)
        return StatResult(
            is_directory=status.is_directory,
            length=status.length,
            mtime=int(status.modified or 0),
            mode=status.mode,
        )

    def mkdir(self, mode: int | None = None, parents: bool = False, exist_ok: bool = False) -> None:
        if mode not in (None, 0o777):
            raise NotImplementedError(
                f"{self}: mode {mode:o} is not supported; for a local path use os.chmod"
            )
        if parents and exist_ok:
            operations.MakeDirs(self)
            return
        if parents:
            operations.MakeDirs(self.parent)
        try:
            operations.MakeDir(self)
        except FileExistsError:
            if not exist_ok or not self.is_dir():
                raise

    def rmdir(self) -> None:
        filesystem_of(self).remove_directory(str(self))

    def rmtree(self, missing_ok: bool = False) -> None:
        if not missing_ok or self.exists():
            operations.DeleteRecursively(self)

    def unlink(self, missing_ok: bool = False) -> None:
        if not missing_ok or self.exists():
            operations.Remove(self)

    def rename(self, target: PathLike) -> GPath:
        operations.Rename(self, target)
        return type(self)(target)

    def replace(self, target: PathLike) -> GPath:
        operations.Rename(self, target, overwrite=True)
        return type(self)(target)

    def copy(self, dst: PathLike, overwrite: bool = False) -> GPath:
        operations.Copy(self, dst, overwrite)
        return type(self)(dst)

    def format(self, *args: Any, **kwargs: Any) -> GPath:
        return type(self)(str(self).format(*args, **kwargs))

    @property
    def _location(self) -> Location:
        text = pathlib.PurePosixPath.__str__(self)
        first, _, inner = text.partition("/")
        if not _SCHEME_PART.fullmatch(first):
            return Location("", text)
        scheme, _, chain = first[:-1].partition("@")
        return Location(scheme, inner, unquote(chain))


def _as_part(part: PathLike) -> str:
    location = locate(part)
    if not location.scheme:
        return location.inner
    chain = f"@{quote(location.chain, safe='')}" if location.chain else ""
    return f"{location.scheme}{chain}:/{location.inner.lstrip('/')}"


for _scheme in _SCHEMES:
    epath.register_path_cls(f"{_scheme}://")(GPath)
