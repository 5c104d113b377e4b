# SPDX-License-Identifier: Apache-2.0
"""Entries below a URL, by gfile: any scheme that it knows or is given."""

from __future__ import annotations

from torch_google import gfile


class Remote:
    """`read` and `write` raise OSError; an entry appears whole. Raises ValueError for what nobody opens."""

    evicted = 0

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        try:
            gfile.filesystem_of(self._url)
        except (ImportError, ValueError) as error:
            raise ValueError(f"nothing opens '{url}' ({error})") from error

    def __str__(self) -> str:
        return self._url

    def read(self, name: str) -> bytes | None:
        """Return the bytes of an entry, or None."""
        try:
            with gfile.Open(self._file(name), "rb") as file:
                data: bytes = file.read()
        except FileNotFoundError:
            return None
        return data

    def write(self, name: str, data: bytes) -> None:
        """Put an entry there."""
        gfile.MakeDirs(f"{self._url}/{name[:2]}")
        with gfile.Open(self._file(name), "wb") as file:
            file.write(data)

    def _file(self, name: str) -> str:
        return f"{self._url}/{name[:2]}/{name}"
