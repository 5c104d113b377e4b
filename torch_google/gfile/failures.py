# SPDX-License-Identifier: Apache-2.0
"""File errors: every filesystem raises the same exceptions as `open()`.

Each store's client has its own exceptions. This module converts them to an OSError that has an
errno, names the path and suggests a next step. It also decides which failures are transient.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class TransientError(OSError):
    """A transient failure. If a filesystem raises it, gfile retries the call."""


class ChecksumError(OSError):
    """Raised if a file's content does not match its checksum."""


# HTTP statuses to retry, in addition to 5xx: timeout, too early, too many requests.
_TRANSIENT_STATUS = frozenset({408, 425, 429})
_TRANSIENT_ERRNO = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,  # s3fs raises EBUSY for a 503
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTUNREACH,
        errno.EINTR,
        errno.ENETDOWN,
        errno.ENETRESET,
        errno.ENETUNREACH,
        errno.EPIPE,
        errno.EREMOTEIO,  # s3fs raises EREMOTEIO for a 500
        errno.ETIMEDOUT,
    }
)
# The class names of the clients' transient exceptions, most of which are not OSErrors. The classes
# cannot be imported, because the packages may not be installed.
_TRANSIENT_NAMES = frozenset(
    {
        # aiohttp, fsspec, http.client
        "ClientConnectionError",
        "ClientPayloadError",
        "FSTimeoutError",
        "IncompleteRead",
        "IncompleteReadError",
        "ServerDisconnectedError",
        # botocore
        "ConnectTimeoutError",
        "ConnectionClosedError",
        "EndpointConnectionError",
        "FlexibleChecksumError",
        "HTTPClientError",
        "ProxyConnectionError",
        "ReadTimeoutError",
        "ResponseParserError",
        "ResponseStreamingError",
        # requests, urllib3
        "ChunkedEncodingError",
        "ConnectionError",
        "NewConnectionError",
        "ProtocolError",
        "ProxyError",
        "Timeout",
        # google.auth, httpx
        "TransportError",
        # azure
        "ServiceRequestError",
        "ServiceResponseError",
    }
)
# Exceptions that signal permanent failures, although their base classes signal transient ones.
_PERMANENT_NAMES = frozenset(
    {
        "CertificateError",
        "ClientConnectorCertificateError",
        "SSLCertVerificationError",
        "UnsupportedProtocol",
    }
)
# S3 error codes that mean a transient failure, whatever the HTTP status.
_TRANSIENT_CODES = frozenset(
    {
        "InternalError",
        "OperationAborted",
        "RequestLimitExceeded",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
    }
)
# Packages whose exceptions mean that a store failed, not that the program has a bug.
_CLIENTS = frozenset(
    {
        "adlfs",
        "aiobotocore",
        "aiohttp",
        "azure",
        "botocore",
        "fsspec",
        "gcsfs",
        "google",
        "httpx",
        "huggingface_hub",
        "paramiko",
        "requests",
        "s3fs",
        "smbprotocol",
        "urllib3",
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
    400: errno.EINVAL,
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
    errno.ESTALE: "open it again",
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
    TimeoutError: errno.ETIMEDOUT,
}
_OF_NAME = {
    # s3fs raises this error, with EBUSY, if a file is replaced while it is being read.
    "FileExpired": errno.ESTALE,
    "ParamValidationError": errno.EINVAL,
    # botocore, google.auth and azure raise these for missing or rejected credentials.
    "ClientAuthenticationError": errno.EACCES,
    "CredentialRetrievalError": errno.EACCES,
    "DefaultCredentialsError": errno.EACCES,
    "NoCredentialsError": errno.EACCES,
    "PartialCredentialsError": errno.EACCES,
    "RefreshError": errno.EACCES,
    "TokenRetrievalError": errno.EACCES,
    "UnauthorizedSSOTokenError": errno.EACCES,
}


def is_transient(error: BaseException, *, handled: BaseException | None = None) -> bool:
    """Return whether a retry may help: after a timeout, a lost connection, or a 429 or 5xx status.

    A missing file or a denied permission is never transient. The exceptions that caused the error
    are checked too, because fsspec's HTTP filesystem raises FileNotFoundError for a 503. The
    exception `handled`, which the caller was already handling when it made the call, is ignored.
    """
    origins = list(_origins(error, handled))
    if any(_names(each) & _PERMANENT_NAMES for each in origins):
        return False
    return any(_passes(each) for each in origins)


def is_absence(error: BaseException) -> bool:
    """Return whether an error means that a store has no such file."""
    causes = [error]
    while causes[-1].__cause__ is not None and len(causes) < 10:
        causes.append(causes[-1].__cause__)
    return not any(_passes(each) for each in causes) and any(
        isinstance(each, (FileNotFoundError, NotADirectoryError)) or _status(each) in (404, 410)
        for each in causes
    )


def failure(code: int, text: str, path: object) -> OSError:
    """Return the OSError for an errno, with `text` and a suggested next step."""
    step = _NEXT.get(code)
    error = OSError(code, f"{text}; {step}" if step else text, str(path))
    error._explained = True  # type: ignore[attr-defined]
    return error


@contextmanager
def explained(doing: str, path: object) -> Iterator[None]:
    """Convert a store's exceptions to those of `open()`, with a path and a suggested next step."""
    handled = sys.exc_info()[1]
    try:
        yield
    except Exception as error:
        # An exception that neither the system nor a client raised is a bug: do not convert it.
        foreign = not isinstance(error, OSError) and _status(error) is None
        if foreign and not _is_clients(error) and not is_transient(error, handled=handled):
            raise
        if getattr(error, "_explained", False):
            raise
        raise _explain(error, doing, path, handled) from error


def _explain(
    error: BaseException, doing: str, path: object, handled: BaseException | None
) -> OSError:
    # Report the innermost exception that is transient or has a status: it is the most specific.
    transient = is_transient(error, handled=handled)
    origin = error
    for each in _origins(error, handled):
        if each is not error and (_passes(each) or _status(each) is not None):
            origin = each
    code = _code(origin)
    if code is None and not (transient and isinstance(error, _PERMANENT)):
        code = _code(error)
    reason = (isinstance(origin, OSError) and origin.strerror) or _words(origin)
    if code == errno.ESTALE:
        reason = "it changed while it was read"
    explanation = failure(code or errno.EIO, f"{doing}: {reason}", path)
    if isinstance(origin, (ChecksumError, TransientError)):
        own = type(origin)(explanation.errno, explanation.strerror, explanation.filename)
        own._explained = True  # type: ignore[union-attr]
        return own
    return explanation


def _origins(error: BaseException, handled: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and the chain of its causes and contexts, up to `handled`.

    Contexts matter because s3fs raises errors while it handles botocore's, without setting a cause.
    `handled` is an exception that the caller was already handling. Python makes it the context of
    every error raised in the meantime, but it did not cause them.
    """
    visited: set[int] = set()
    each: BaseException | None = error
    while each is not None and each is not handled and id(each) not in visited:
        visited.add(id(each))
        yield each
        hidden = each.__suppress_context__
        each = each.__cause__ if hidden or each.__cause__ is not None else each.__context__


def _passes(error: BaseException) -> bool:
    """Return whether an exception itself is transient, ignoring its causes."""
    names = _names(error)
    if isinstance(error, _PERMANENT) or names & _OF_NAME.keys():
        return getattr(error, "retryable", None) is True  # google.auth sets this attribute
    if isinstance(error, (TransientError, TimeoutError, ConnectionError)):
        return True
    if isinstance(error, OSError) and error.errno in _TRANSIENT_ERRNO:
        return True
    if names & _TRANSIENT_NAMES or getattr(error, "retryable", None) is True:
        return True
    if _s3_code(error) in _TRANSIENT_CODES:
        return True
    status = _status(error)
    return status is not None and (status in _TRANSIENT_STATUS or status >= 500)


def _code(error: BaseException) -> int | None:
    """Return the errno for an exception, or None if no errno describes it."""
    names = _names(error)
    for name, code in _OF_NAME.items():
        if name in names:
            return code
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    for kind, code in _OF_CLASS.items():
        if isinstance(error, kind):
            return code
    status = _status(error)
    if status is not None:
        return _OF_STATUS.get(status, errno.EIO if status >= 500 else None)
    if any("Timeout" in name for name in names):
        return errno.ETIMEDOUT
    # The beginning of gcsfs's message for a 403 response.
    return errno.EACCES if str(error).startswith("Forbidden: ") else None


def _names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _is_clients(error: BaseException) -> bool:
    return any(kind.__module__.partition(".")[0] in _CLIENTS for kind in type(error).__mro__)


def _words(error: BaseException) -> str:
    text = str(error)
    name = type(error).__name__
    return f"{name}: {text}" if text else name


def _status(error: BaseException) -> int | None:
    """Return the HTTP status in a client's exception, or None if it has none."""
    for name in ("status", "status_code", "code"):
        value = getattr(error, name, None)
        if isinstance(value, int) and 100 <= value < 600:
            return value
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore's errors have a dict
        value = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:  # errors of requests and httpx have a response object
        value = getattr(response, "status_code", None)
    return value if isinstance(value, int) else None


def _s3_code(error: BaseException) -> str | None:
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return None
    code = response.get("Error", {}).get("Code")
    return code if isinstance(code, str) else None
