# SPDX-License-Identifier: Apache-2.0
"""Upload a file to a store, and check whether an upload succeeded."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable
from typing import IO, Any

from torch_google.gfile.primitives import defines

_PIECE = 8 << 20
# The size in bytes of the parts in which s3fs uploads a file, unless that takes over 10,000 parts.
_S3_PART = 50 << 20
_ETAG = re.compile(r'"?([0-9a-f]{32})(?:-(\d+))?"?')


def upload(system: Any, inner: str, spool: IO[bytes]) -> None:
    """Upload all of `spool`. If this fails in a store with atomic uploads, the old file remains."""
    spool.seek(0)
    if isinstance(spool, io.BytesIO):
        system.pipe_file(inner, spool.getvalue())
        return
    if defines(system, "put_file"):
        # put_file needs a path, so pass it a path to the descriptor of the spool, an unnamed file.
        spool.flush()
        system.put_file(f"/proc/self/fd/{spool.fileno()}", inner)
        return
    file = system.open(inner, "wb")
    try:
        while piece := spool.read(_PIECE):
            file.write(piece)
        file.close()
    except BaseException:
        # Mark the file as closed without calling close(), which would commit a truncated file.
        file.closed = True
        if hasattr(file, "discard"):
            file.discard()
        raise


def is_uploaded(
    spool: IO[bytes], info: dict[str, Any], open_stored: Callable[[], IO[bytes]]
) -> bool:
    """Return whether the stored file that `info` describes contains exactly the bytes of `spool`.

    Compare the size, then the ETag if it is a digest. If that is inconclusive, read the file back.
    """
    size = spool.seek(0, io.SEEK_END)
    if info["type"] != "file" or info["size"] != size:
        return False
    if _has_etag(spool, size, str(info.get("ETag") or "")):
        return True
    spool.seek(0)
    with open_stored() as stored:
        while piece := spool.read(_PIECE):
            if stored.read(len(piece)) != piece:
                return False
    return True


def _has_etag(spool: IO[bytes], size: int, etag: str) -> bool:
    """Return whether S3's ETag is the MD5 of the bytes, or the MD5 of their parts' MD5s."""
    match = _ETAG.fullmatch(etag)
    if match is None:
        return False
    spool.seek(0)
    if match[2] is None:
        return _md5(spool, size).hexdigest() == match[1]
    parts = int(match[2])
    if parts != max(1, -(-size // _S3_PART)):
        return False  # the file was uploaded in parts of a different size
    digests = b"".join(_md5(spool, _S3_PART).digest() for _ in range(parts))
    return hashlib.md5(digests, usedforsecurity=False).hexdigest() == match[1]


def _md5(file: IO[bytes], length: int) -> Any:
    state = hashlib.md5(usedforsecurity=False)
    while length > 0 and (piece := file.read(min(length, 1 << 20))):
        state.update(piece)
        length -= len(piece)
    return state
