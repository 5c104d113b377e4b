# SPDX-License-Identifier: Apache-2.0
"""Entries below a URL, by gfile: any scheme that it knows or is given."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch_google import gfile


class Remote:
    """`read` and `write` raise OSError; an entry appears whole. Raises ValueError for what nobody opens."""

    evicted = 0

    def __init__(self, url: str) -> None:
        scheme, _, path = url.partition("://")
        self._url = f"{scheme}://{path.rstrip('/')}"
        try:
            gfile.filesystem_of(self._url)
        # What a filesystem asks for when it is made, it misses in its own words.
        except Exception as error:
            raise ValueError(f"nothing opens '{url}' ({error})") from error

    def __str__(self) -> str:
        return self._url

    def fits(self, size: int) -> bool:
        """Say that any entry may be kept."""
        return True

    def read(self, name: str) -> bytes | None:
        """Return the bytes of an entry, or None."""
        with _errors_of_the_system():
            try:
                with gfile.Open(self._file(name), "rb") as file:
                    data: bytes = file.read()
            except FileNotFoundError:
                return None
        return data

    def write(self, name: str, data: bytes) -> None:
        """Put an entry there."""
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
    """Make OSError of what else a filesystem of somebody else's may raise: a cache ends no program."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
