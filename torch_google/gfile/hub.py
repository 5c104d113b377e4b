# SPDX-License-Identifier: Apache-2.0
"""Downloads for torch.hub, from any scheme. Network access must be allowed explicitly."""

from __future__ import annotations

import errno
import urllib.request
from email.message import Message
from typing import Any
from urllib.parse import urlsplit

from torch_google.gfile.failures import failure
from torch_google.gfile.operations import Open, Stat
from torch_google.gfile.settings import settings

_NETWORK = ("ftp", "http", "https")


def open_url(url: str | urllib.request.Request, *args: Any, **kwargs: Any) -> Any:
    """Open a URL for reading. The result has `info()`, like that of `urllib.request.urlopen`.

    Raises PermissionError for a network URL, unless gfile's setting `network` is true.
    """
    name = url if isinstance(url, str) else url.full_url
    scheme = urlsplit(name).scheme
    if scheme in _NETWORK and not settings().network:
        raise failure(
            errno.EPERM,
            "torch.hub may not use the network here; give a path in a store or a local path "
            "(memory://, gs://, file://, ...), or allow it with gfile.configure(network=True) or "
            "TORCH_GOOGLE_NETWORK=1",
            name,
        )
    if scheme in _NETWORK:
        return urllib.request.urlopen(url, *args, **kwargs)
    return _Download(name)


class _Download:
    """A file with the interface that torch.hub expects."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = Open(path, "rb")

    def info(self) -> Message:
        """Return HTTP headers that contain only the content length."""
        header = Message()
        header["Content-Length"] = str(Stat(self._path).length)
        return header

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._file.read(size)
        return data

    def __enter__(self) -> _Download:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()
