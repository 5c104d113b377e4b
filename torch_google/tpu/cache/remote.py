# SPDX-License-Identifier: Apache-2.0
"""Stores cache entries under a URL with any scheme that gfile supports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch_google import gfile


class Remote:
    """Cache entries under a URL. `read` and `write` raise OSError on failure. Writes are atomic.

    The constructor raises ValueError if no filesystem can open the URL.
    """

    evicted = 0

    def __init__(self, url: str) -> None:
        scheme, _, path = url.partition("://")
        self._url = f"{scheme}://{path.rstrip('/')}"
        try:
            gfile.filesystem_of(self._url)
        # A filesystem's constructor may raise any error, for example if a library is missing.
        except Exception as error:
            raise ValueError(f"cannot open '{url}' ({error})") from error

    def __str__(self) -> str:
        return self._url

    def fits(self, size: int) -> bool:
        """Return True: the entries under a URL have no size limit."""
        return True

    def read(self, name: str) -> bytes | None:
        """Return the bytes of an entry, or None if it does not exist."""
        with _errors_of_the_system():
            try:
                with gfile.Open(self._file(name), "rb") as file:
                    data: bytes = file.read()
            except FileNotFoundError:
                return None
        return data

    def write(self, name: str, data: bytes) -> None:
        """Write an entry atomically."""
        path = self._file(name)
        with _errors_of_the_system():
            gfile.MakeDirs(path.rpartition("/")[0])
            with gfile.Open(path, "wb") as file:
                file.write(data)

    def _file(self, name: str) -> str:
        between = "" if self._url.endswith("/") else "/"
        return f"{self._url}{between}{name[:2]}/{name}"


@contextmanager
def _errors_of_the_system() -> Iterator[None]:
    """Convert errors from third-party filesystems to OSError, which callers handle."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
