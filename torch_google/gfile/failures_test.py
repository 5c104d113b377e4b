# SPDX-License-Identifier: Apache-2.0
"""Test which exceptions from store clients are transient, and their conversion to OSErrors."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from typing import Any

import pytest

from torch_google import gfile
from torch_google.gfile.failures import explained
from torch_google.gfile.testing.backends import QUICK
from torch_google.gfile.testing.object_stores import Objects, Strict
from torch_google.gfile.upload import is_uploaded


def _foreign(name: str, module: str, *bases: type[BaseException]) -> Any:
    """Return a stand-in for a client's exception class; the client need not be installed."""
    return type(name, bases or (Exception,), {"__module__": module})


def _fail(error: BaseException) -> None:
    raise error


_BOTO = _foreign("BotoCoreError", "botocore.exceptions")
_CLIENT_ERROR = _foreign("ClientError", "botocore.exceptions")


def _answer(code: str, status: int) -> BaseException:
    """Return botocore's exception for an S3 response."""
    error: BaseException = _CLIENT_ERROR(f"An error occurred ({code})")
    error.response = {  # type: ignore[attr-defined]
        "Error": {"Code": code},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return error


def _coded(name: str, module: str, code: int) -> BaseException:
    error: BaseException = _foreign(name, module)(f"status {code}")
    error.code = code  # type: ignore[attr-defined]
    return error


_TRANSIENT = [
    *(
        _foreign(name, "botocore.exceptions", _BOTO)("botocore")
        for name in (
            "ConnectionClosedError",
            "ConnectTimeoutError",
            "EndpointConnectionError",
            "HTTPClientError",
            "ProxyConnectionError",
            "ReadTimeoutError",
            "ResponseStreamingError",
        )
    ),
    _answer("SlowDown", 503),
    _answer("InternalError", 500),
    _answer("RequestTimeout", 400),
    OSError(errno.EBUSY, "s3fs: reduce your request rate"),
    OSError(errno.EREMOTEIO, "s3fs: internal error"),
    _coded("HttpError", "gcsfs.retry", 503),
    _coded("HttpError", "gcsfs.retry", 429),
    _foreign("ConnectionError", "requests.exceptions", OSError)("requests"),
    _foreign("ClientOSError", "aiohttp", _foreign("ClientConnectionError", "aiohttp"))("aiohttp"),
    _foreign("TransportError", "google.auth.exceptions")("google.auth"),
    _foreign("ServiceRequestError", "azure.core.exceptions")("azure"),
    _foreign("ServiceResponseError", "azure.core.exceptions")("azure"),
]
_PERMANENT = [
    (_answer("NoSuchKey", 404), errno.ENOENT),
    (_answer("AccessDenied", 403), errno.EACCES),
    (_answer("InvalidArgument", 400), errno.EINVAL),
    (_foreign("NoCredentialsError", "botocore.exceptions", _BOTO)("none"), errno.EACCES),
    (_foreign("ParamValidationError", "botocore.exceptions", _BOTO)("bad"), errno.EINVAL),
    (_foreign("DefaultCredentialsError", "google.auth.exceptions")("none"), errno.EACCES),
    (_foreign("RefreshError", "google.auth.exceptions")("expired"), errno.EACCES),
    (_coded("HttpError", "gcsfs.retry", 403), errno.EACCES),
    (OSError("Forbidden: https://storage/b/o"), errno.EACCES),
    (_foreign("ClientAuthenticationError", "azure.core.exceptions")("no"), errno.EACCES),
    (_foreign("UnknownError", "aiobotocore.anything")("what"), errno.EIO),
]


@pytest.mark.parametrize("error", _TRANSIENT, ids=lambda error: f"{type(error).__name__}-{error}")
def test_a_connection_that_fails_is_waited_for(error: BaseException) -> None:
    assert gfile.is_transient(error)
    with pytest.raises(OSError, match="x://y") as raised, explained("cannot open", "x://y"):
        _fail(error)
    assert raised.value.filename == "x://y"
    timeout = "Timeout" in type(error).__name__
    assert not timeout or raised.value.errno == errno.ETIMEDOUT


@pytest.mark.parametrize(("error", "code"), _PERMANENT, ids=str)
def test_a_failure_that_stays_is_raised_at_once(error: BaseException, code: int) -> None:
    assert not gfile.is_transient(error)
    with pytest.raises(OSError, match="x://y") as raised, explained("cannot open", "x://y"):
        _fail(error)
    assert (raised.value.errno, raised.value.filename) == (code, "x://y")


@pytest.mark.parametrize(
    ("module", "name", "arguments"),
    [
        ("botocore.exceptions", "EndpointConnectionError", {"endpoint_url": "http://x"}),
        ("botocore.exceptions", "ConnectTimeoutError", {"endpoint_url": "http://x"}),
        ("botocore.exceptions", "ReadTimeoutError", {"endpoint_url": "http://x"}),
        ("botocore.exceptions", "ConnectionClosedError", {"endpoint_url": "http://x"}),
        ("aiohttp", "ServerTimeoutError", {}),
        ("aiohttp", "ClientPayloadError", {}),
        ("gcsfs.retry", "HttpError", {"error_response": {"code": 503, "message": "busy"}}),
        ("google.auth.exceptions", "TransportError", {}),
        ("azure.core.exceptions", "ServiceRequestError", {"message": "x"}),
        ("requests.exceptions", "ChunkedEncodingError", {}),
    ],
)
def test_the_clients_own_classes(module: str, name: str, arguments: dict[str, Any]) -> None:
    client = pytest.importorskip(module, reason=f"{module} is not installed")
    error = getattr(client, name)(**arguments)
    assert gfile.is_transient(error)


def test_a_certificate_that_is_refused_stays_refused() -> None:
    error = _foreign("SSLError", "botocore.exceptions", _foreign("HTTPClientError", "botocore"))()
    assert gfile.is_transient(error)
    error.__context__ = _foreign("ClientConnectorCertificateError", "aiohttp")()
    assert not gfile.is_transient(error)


def test_an_error_is_read_with_the_one_that_was_being_handled() -> None:
    """s3fs raises its own error while it handles botocore's, without setting a cause."""
    error = OSError(errno.EINVAL, "translated")
    error.__context__ = _answer("ServiceUnavailable", 503)
    with pytest.raises(OSError, match="x://y") as raised, explained("no status", "x://y"):
        _fail(error)
    assert raised.value.errno == errno.EIO
    assert gfile.is_transient(raised.value)
    hidden = ValueError("hidden")
    hidden.__context__, hidden.__suppress_context__ = ConnectionResetError(), True
    assert not gfile.is_transient(hidden)


@pytest.mark.parametrize("path", ["memory://none", "context://none"])
def test_an_error_of_the_caller_is_not_read(path: str) -> None:
    """A program may call gfile while it handles its own transient failure."""
    gfile.register_scheme("context", Objects, retry=QUICK, overwrite=True)
    try:
        raise ConnectionResetError("the caller's")
    except ConnectionResetError:
        assert not gfile.Exists(path)
        with pytest.raises(FileNotFoundError):
            gfile.Open(path)
        with gfile.Open(path, "w") as file:
            file.write("x")
        gfile.Remove(path)


# Tests of lost responses.


class _Forgetful(Objects):
    """A store that loses one response. Its client then retries, and raises the retry's error."""

    lose: str | None = None
    keep = True

    def _lost(self, verb: str, error: Exception) -> None:
        if self.lose == verb:
            self.lose = None
            raise error

    async def _put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        if self.keep or self.lose != "put":
            await super()._put_file(lpath, rpath, **options)
        self._lost("put", FileNotFoundError("NoSuchUpload"))

    async def _rm_file(self, path: str, **options: Any) -> None:
        await super()._rm_file(path, **options)
        self._lost("remove", FileNotFoundError(path))

    async def _cp_file(self, path1: str, path2: str, **options: Any) -> None:
        await super()._cp_file(path1, path2, **options)
        self._lost("copy", TimeoutError())

    async def _info(self, path: str, **options: Any) -> dict[str, Any]:
        info = await super()._info(path, **options)
        return info | ({"ETag": self.etag} if self.etag is not None else {})

    etag: str | None = None


@pytest.fixture
def forgetful() -> _Forgetful:
    store = _Forgetful()
    gfile.register_scheme("forgetful", store, retry=QUICK, overwrite=True)
    with gfile.Open("forgetful://a", "wb") as file:
        file.write(b"old")
    return store


@pytest.mark.parametrize("etag", [None, "", '"0123-encrypted"'])
def test_a_commit_whose_answer_is_lost(forgetful: _Forgetful, etag: str | None) -> None:
    forgetful.lose, forgetful.etag = "put", etag
    with gfile.Open("forgetful://a", "wb") as file:
        file.write(b"new")
    assert forgetful.kept == {"a": b"new"}
    assert [verb for verb, *_ in forgetful.changes] == ["put", "put"]


def test_a_commit_that_failed_fails(forgetful: _Forgetful) -> None:
    forgetful.lose, forgetful.keep = "put", False
    file = gfile.Open("forgetful://a", "wb")
    file.write(b"new")
    with pytest.raises(FileNotFoundError, match="forgetful://a"):
        file.close()
    assert forgetful.kept == {"a": b"old"}


def test_a_removal_whose_answer_is_lost(forgetful: _Forgetful) -> None:
    forgetful.lose = "remove"
    gfile.Remove("forgetful://a")
    assert not forgetful.kept


@pytest.mark.parametrize("lose", ["copy", "remove"])
def test_a_rename_whose_answer_is_lost(forgetful: _Forgetful, lose: str) -> None:
    forgetful.kept["d/b"] = b"b"
    forgetful.lose = lose
    gfile.Rename("forgetful://a", "forgetful://c")
    forgetful.lose = lose
    gfile.Rename("forgetful://d", "forgetful://e")
    assert forgetful.kept == {"c": b"old", "e/b": b"b"}
    forgetful.lose = lose
    gfile.Rename("forgetful://c", "forgetful://e/b", overwrite=True)
    assert forgetful.kept == {"e/b": b"old"}


class _Slow(Strict):
    """A store that loses its first response to mkdir. It acts as if `raced` already existed."""

    lose = True

    def mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        super().mkdir(path, create_parents=create_parents, **options)
        if self.lose:
            self.lose = False
            raise TimeoutError
        if path.endswith("raced"):
            super().mkdir(path)


def test_a_directory_is_made_once() -> None:
    store = _Slow(global_store=False, skip_instance_cache=True)
    gfile.register_scheme("slow", store, retry=QUICK, overwrite=True)
    gfile.MakeDir("slow://a")
    assert gfile.IsDirectory("slow://a")
    with pytest.raises(FileExistsError):
        gfile.MakeDir("slow://raced")


@pytest.mark.parametrize("size", [0, 10, (50 << 20) + 1])
def test_an_etag_is_that_of_the_bytes(size: int) -> None:
    content = os.urandom(min(size, 10)) * (size // 10) + b"x" * (size % 10)
    parts = [content[offset : offset + (50 << 20)] for offset in range(0, size, 50 << 20)]
    digests = [hashlib.md5(part).digest() for part in parts]
    single = f'"{hashlib.md5(content).hexdigest()}"'
    several = f'"{hashlib.md5(b"".join(digests)).hexdigest()}-{len(parts)}"'

    def read() -> Any:
        raise AssertionError("the ETag should decide")

    for etag in (single, several) if parts else (single,):
        info = {"type": "file", "size": size, "ETag": etag}
        assert is_uploaded(io.BytesIO(content), info, read)
        assert not is_uploaded(io.BytesIO(content + b"x"), info, read)
    other = {"type": "file", "size": size, "ETag": '"another"'}
    assert is_uploaded(io.BytesIO(content), other, lambda: io.BytesIO(content))
    if size:
        assert not is_uploaded(io.BytesIO(content), other, lambda: io.BytesIO(b"y" * size))
    assert not is_uploaded(io.BytesIO(), {"type": "directory", "size": 0}, read)
