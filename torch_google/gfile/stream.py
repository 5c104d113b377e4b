# SPDX-License-Identifier: Apache-2.0
"""File objects: writers that commit on close, and readers that survive a lost connection.

A writer commits nothing if an exception escapes its `with` block, or if it is dropped without
`close()`.
"""

from __future__ import annotations

import io
import logging
import os
import tempfile
from collections.abc import Callable
from types import TracebackType
from typing import IO, Any

from torch_google.gfile.failures import TransientError, explained
from torch_google.gfile.partial import Partial
from torch_google.gfile.retry import Retry

_log = logging.getLogger("torch_google.gfile")
# The maximum number of bytes per request to a store. It bounds the memory use of a read.
_MAX_READ = 8 << 20
# The maximum number of bytes to buffer in memory for an upload. A larger file is spooled to an
# unnamed local file.
_IN_MEMORY = 16 << 20


class _Committing:
    """Base class of all writers. Only `close()` in the process that opened the file commits it.

    A forked process has its own copy of the buffered data, and discards it.
    """

    def __exit__(
        self: Any,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.discard()
        self.close()

    def __del__(self: Any) -> None:
        # `_commit` is missing if __init__ failed.
        if getattr(self, "_commit", None) is not None and not self.closed:
            if self.owner == os.getpid():
                _log.warning(
                    "%s: dropped without close(), so it was not written; use `with`", self.name
                )
            self.discard()

    def _check_owner(self: Any) -> None:
        if self.owner != os.getpid():
            self.discard()
            raise ValueError(
                f"{self.name}: closed in process {os.getpid()}, a fork of {self.owner}, and only the "
                "process that opened it can write it; open it again"
            )


class LocalWriter(_Committing, io.BufferedWriter):
    """A writer for a local file, with `fileno()` and `seek()`. `name` is the target's path."""

    def __init__(
        self, partial: Partial, commit: Callable[[Partial], None], mode: str = "w"
    ) -> None:
        self._partial = partial
        descriptor = partial.create(copy=mode == "a")
        super().__init__(io.FileIO(descriptor, "a" if mode == "a" else "w"), 1 << 17)
        self._commit: Callable[[Partial], None] | None = commit

    @property
    def name(self) -> str:
        """The target's path."""
        return self._partial.target

    @property
    def owner(self) -> int:
        """The id of the process that opened the file."""
        return self._partial.owner

    def close(self) -> None:
        """Commit the file. Raises ValueError in a forked process."""
        if self.closed:
            return
        self._check_owner()
        commit, self._commit = self._commit, None
        try:
            super().close()
        except BaseException:
            self._partial.discard()
            raise
        if commit is not None:
            commit(self._partial)

    def discard(self) -> None:
        """Close the file, leaving the target unchanged."""
        self._commit = None
        try:
            self.raw.close()  # closing `raw` drops the buffered data
        finally:
            self._partial.discard()

    def __exit__(self, *exception: Any) -> None:
        _Committing.__exit__(self, *exception)


class StoreWriter(_Committing, io.BufferedIOBase):
    """A writer for a file in a store. Until `close` uploads the file, the store is unchanged."""

    def __init__(
        self, name: str, commit: Callable[[IO[bytes]], None], *, spool: bool = True
    ) -> None:
        self.name = name
        self.owner = os.getpid()
        self._spool: IO[bytes] = (
            tempfile.SpooledTemporaryFile(  # noqa: SIM115 - closed by close()
                max_size=_IN_MEMORY, prefix="gfile-"
            )
            if spool
            else io.BytesIO()
        )
        self._commit: Callable[[IO[bytes]], None] | None = commit

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check()
        return self._spool.tell()

    def write(self, data: Any) -> int:
        self._check()
        self._spool.write(data)
        return memoryview(data).nbytes

    def close(self) -> None:
        """Commit the file. Raises ValueError in a forked process."""
        if self.closed:
            return
        if self._commit is not None:
            self._check_owner()
        commit, self._commit = self._commit, None
        try:
            if commit is not None:
                self._spool.seek(0)
                commit(self._spool)
        finally:
            self._spool.close()
            super().close()

    def discard(self) -> None:
        """Close the file, leaving the store unchanged."""
        self._commit = None
        self.close()

    def _check(self) -> None:
        if self.closed:
            raise ValueError(f"{self.name}: written to after close(); open it again")


class TextWriter(_Committing, io.TextIOWrapper):
    """A text layer over a binary writer that commits on close."""

    _commit = True

    def __exit__(self, *exception: Any) -> None:
        _Committing.__exit__(self, *exception)

    @property
    def name(self) -> str:
        """The target's path."""
        return str(self.buffer.name)

    @property
    def owner(self) -> int:
        """The id of the process that opened the file."""
        owner: int = self.buffer.owner  # type: ignore[attr-defined]
        return owner

    def close(self) -> None:
        """Commit the file. Raises ValueError in a forked process."""
        if not self.closed:
            self._check_owner()  # must precede super().close(), which flushes the buffer
        super().close()

    def discard(self) -> None:
        """Close the file, leaving the target unchanged."""
        self.buffer.discard()  # type: ignore[attr-defined]


class StoreReader(io.RawIOBase):
    """A reader for a file in a store. After a transient failure, it resumes at the same position.

    `open_again` opens or reopens the file. If `length` is None, a connection that ends early cannot
    be distinguished from the end of the file. `check` runs after each read, and raises if the bytes
    may be from a different version.
    """

    def __init__(
        self,
        name: str,
        open_again: Callable[[], Any],
        length: int | None,
        retry: Retry,
        check: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self._open_again = open_again
        self._length = length
        self._retry = retry
        self._check = check
        self._file: Any = None
        self._position = 0
        self._retry.call(self._opened, name)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_CUR:
            offset += self._position
        elif whence == os.SEEK_END:
            if self._length is None:
                raise io.UnsupportedOperation(f"{self.name}: its length is unknown")
            offset += self._length
        if offset < 0:
            raise ValueError(f"{self.name}: seek to {offset}; give a position that is not negative")
        self._position = offset
        return offset

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if self._length is not None and self._position >= self._length:
            return 0
        with explained("cannot read", self.name):
            data = self._retry.call(lambda: self._read(len(view)), self.name, reset=self._drop)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def readall(self) -> bytes:
        # The inherited method reads only 8 KiB at a time, and each read may send a request.
        pieces = []
        while piece := self.read(_MAX_READ):
            pieces.append(piece)
        return b"".join(pieces)

    def close(self) -> None:
        if not self.closed:
            self._drop()
        super().close()

    def _read(self, size: int) -> bytes:
        file = self._opened()
        if file.tell() != self._position:
            file.seek(self._position)
        data: bytes = file.read(min(size, _MAX_READ))
        if not data and size and self._length is not None:
            raise TransientError(f"it ended at {self._position} of {self._length} bytes")
        if self._check is not None:
            self._check()
        return data

    def _opened(self) -> Any:
        if self._file is None:
            self._file = self._open_again()
        return self._file

    def _drop(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
