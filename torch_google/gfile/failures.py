# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with files: the same exceptions as `open()` raises, whoever keeps the file.

Each store reports in its own way; here it becomes an OSError with errno, path and the next step, and
it is decided which failures pass by themselves.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager


class TransientError(OSError):
    """A failure that passes by itself; a filesystem that raises it is asked again."""


class ChecksumError(OSError):
    """A file's content is not what its checksum says."""


# HTTP's answers that are worth asking again: timeout, too early, too many requests; 5xx besides.
_TRANSIENT_STATUS = frozenset({408, 425, 429})
_TRANSIENT_ERRNO = frozenset(
    {
        errno.EAGAIN,
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTUNREACH,
        errno.EINTR,
        errno.ENETDOWN,
        errno.ENETRESET,
        errno.ENETUNREACH,
        errno.EPIPE,
        errno.ETIMEDOUT,
    }
)
# Classes of clients that need not be installed; none of them is an OSError of its own.
_TRANSIENT_NAMES = frozenset(
    {
        "ClientConnectionError",
        "ClientPayloadError",
        "FSTimeoutError",
        "IncompleteRead",
        "IncompleteReadError",
        "ServerDisconnectedError",
    }
)
_PERMANENT = (
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
_OF_STATUS = {
    401: errno.EACCES,
    403: errno.EACCES,
    404: errno.ENOENT,
    405: errno.EROFS,
    408: errno.ETIMEDOUT,
    410: errno.ENOENT,
    504: errno.ETIMEDOUT,
}
_NEXT = {
    errno.EACCES: "check the permissions or the credentials",
    errno.EEXIST: "remove it, or ask to overwrite it",
    errno.EISDIR: "name a file in it",
    errno.ENOENT: "check the name with gfile.ListDir of its directory",
    errno.ENOSPC: "make room",
    errno.ENOTDIR: "name a directory",
    errno.ENOTEMPTY: "remove what is in it, or use gfile.DeleteRecursively",
    errno.EROFS: "write to a scheme that can be written, and copy",
    errno.ETIMEDOUT: "try again, or allow more attempts with gfile.configure(retry=...)",
    errno.EXDEV: "use gfile.Copy, then gfile.Remove",
}
_OF_CLASS = {
    FileExistsError: errno.EEXIST,
    FileNotFoundError: errno.ENOENT,
    IsADirectoryError: errno.EISDIR,
    NotADirectoryError: errno.ENOTDIR,
    PermissionError: errno.EACCES,
}


def is_transient(error: BaseException) -> bool:
    """Whether asking again may help: timeouts, lost connections, 429 and 5xx.

    A file that is not there, or may not be touched, never is. What a store's client raised from is
    looked at as well.
    """
    # First what a client raised from: fsspec's http says FileNotFoundError of a 503, too.
    if error.__cause__ is not None and is_transient(error.__cause__):
        return True
    if isinstance(error, _PERMANENT):
        return False
    if isinstance(error, (TransientError, TimeoutError, ConnectionError)):
        return True
    if isinstance(error, OSError) and error.errno in _TRANSIENT_ERRNO:
        return True
    if any(kind.__name__ in _TRANSIENT_NAMES for kind in type(error).__mro__):
        return True
    status = _status(error)
    return status is not None and (status in _TRANSIENT_STATUS or status >= 500)


def failure(code: int, what: str, path: object) -> OSError:
    """Return the OSError of a code (its subclass follows), with the next step in its words."""
    step = _NEXT.get(code)
    made = OSError(code, f"{what}; {step}" if step else what, str(path))
    made._explained = True  # type: ignore[attr-defined]
    return made


@contextmanager
def explained(doing: str, path: object) -> Iterator[None]:
    """Raise what any store raises inside as `open()` would: with errno, path and next step."""
    try:
        yield
    except Exception as error:
        # Clients have exceptions of their own; what is neither theirs nor the system's is a bug.
        foreign = not isinstance(error, OSError) and _status(error) is None
        if getattr(error, "_explained", False) or (foreign and not is_transient(error)):
            raise
        raise _explain(error, doing, path) from error


def _explain(error: BaseException, doing: str, path: object) -> OSError:
    cause = error.__cause__
    if cause is not None and (is_transient(cause) or _status(cause) is not None):
        return _explain(cause, doing, path)
    code = error.errno if isinstance(error, OSError) else None
    for kind, known in _OF_CLASS.items():
        if code is None and isinstance(error, kind):
            code = known
    status = _status(error)
    if code is None and status is not None:
        code = _OF_STATUS.get(status)
    if code is None and isinstance(error, TimeoutError):
        code = errno.ETIMEDOUT
    words = (isinstance(error, OSError) and error.strerror) or _words(error)
    made = failure(code or errno.EIO, f"{doing}: {words}", path)
    if isinstance(error, (ChecksumError, TransientError)):
        made = type(error)(made.errno, made.strerror, made.filename)
        made._explained = True  # type: ignore[union-attr]
    return made


def _words(error: BaseException) -> str:
    said = str(error)
    name = type(error).__name__
    return f"{name}: {said}" if said else name


def _status(error: BaseException) -> int | None:
    """Return the HTTP status that an exception of a client carries, or None."""
    for name in ("status", "status_code", "code"):
        value = getattr(error, name, None)
        if isinstance(value, int) and 100 <= value < 600:
            return value
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore's
        value = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return value if isinstance(value, int) else None
    return None
