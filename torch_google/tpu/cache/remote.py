# SPDX-License-Identifier: Apache-2.0
"""Entries below a URL: through etils.epath where it knows the scheme, else through fsspec."""

from __future__ import annotations

from typing import Any, Protocol


class Remote:
    """`read` and `write` raise OSError. An object appears whole there: no name is made twice."""

    evicted = 0

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._files = _files(self._url)

    def __str__(self) -> str:
        return self._url

    def read(self, name: str) -> bytes | None:
        """Return the bytes of an entry, or None."""
        try:
            return self._files.read(f"{name[:2]}/{name}")
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        """Put an entry there."""
        self._files.write(f"{name[:2]}/{name}", data)


class _Files(Protocol):
    def read(self, name: str) -> bytes: ...

    def write(self, name: str, data: bytes) -> None: ...


class _Epath:
    def __init__(self, root: Any) -> None:
        self._root = root

    def read(self, name: str) -> bytes:
        data: bytes = (self._root / name).read_bytes()
        return data

    def write(self, name: str, data: bytes) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class _Fsspec:
    def __init__(self, system: Any, root: str) -> None:
        self._system = system
        self._root = root.rstrip("/")

    def read(self, name: str) -> bytes:
        data: bytes = self._system.cat_file(f"{self._root}/{name}")
        return data

    def write(self, name: str, data: bytes) -> None:
        self._system.makedirs(f"{self._root}/{name[:2]}", exist_ok=True)
        self._system.pipe_file(f"{self._root}/{name}", data)


def _files(url: str) -> _Files:
    try:
        from etils import epath

        return _Epath(epath.Path(url))
    except (KeyError, ImportError):
        pass  # a scheme that epath does not know, or no epath
    try:
        import fsspec

        return _Fsspec(*fsspec.core.url_to_fs(url))
    except (ValueError, ImportError) as error:
        raise ValueError(
            f"nothing opens '{url}' ({error}). Give a directory, or install what fsspec asks for"
        ) from error
