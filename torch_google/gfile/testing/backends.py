# SPDX-License-Identifier: Apache-2.0
"""The filesystems on which gfile's tests run.

Some are real: local files, fsspec's memory filesystem, a zip archive, an HTTP server. Others are
fsspec filesystems written for tests: one fails every third call, one hides an upload's parts until
it is complete, as S3 does, and the two in `object_stores.py` raise if they would have to expand a
pattern.
"""

from __future__ import annotations

import errno
import functools
import http.server
import io
import os
import re
import threading
import urllib.parse
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsspec import AbstractFileSystem
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractBufferedFile

from torch_google import gfile
from torch_google.gfile.testing.cloud_servers import INSTALLED, new_bucket
from torch_google.gfile.testing.object_stores import Objects, Strict

# The files that every backend contains when a test starts.
CONTENT = {
    "hello.txt": "hello, wörld\nsecond line\n".encode(),
    "sub/a.bin": bytes(range(256)) * 40,
    "sub/b.bin": b"",
    "sub/deep/c.txt": b"c",
}
QUICK = gfile.Retry(attempts=6, first=0.001)


@dataclass(frozen=True)
class Backend:
    """A filesystem with CONTENT under `root`.

    real_directories: whether a directory must be created before it is used.
    urls: whether paths are URLs, in which special characters are percent-encoded.
    """

    name: str
    root: str
    writable: bool = True
    real_directories: bool = False
    urls: bool = False

    def written(self, name: str) -> str:
        """Return a name as it appears in paths and listings: percent-encoded if they are URLs."""
        return urllib.parse.quote(name) if self.urls else name

    def path(self, name: str) -> str:
        """Return the full path of a name under the root."""
        if "::" in self.root:
            inner, _, chain = self.root.partition("::")
            return f"{inner}{name}::{chain}"
        return f"{self.root}/{name}"


class Flaky(AbstractFileSystem):
    """A store in which every third call fails, alternately before and after it takes effect.

    Reads return at most 1,000 bytes, and each read counts as a call.
    """

    protocol = "flaky"
    root_marker = "/"
    cachable = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.kept = MemoryFileSystem(global_store=False, skip_instance_cache=True)
        self.calls = 0

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return f"/{path.removeprefix('flaky://').strip('/')}".rstrip("/")

    def ask(self, action: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Run `action`, but raise a network error before or after it on every third call."""
        self.calls += 1
        if self.calls % 6 == 3:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        result = action(*args, **options)
        if self.calls % 6 == 0:
            raise TimeoutError("no answer")
        return result

    def info(self, path: str, **_: Any) -> Any:
        return self.ask(self.kept.info, path)

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        return self.ask(self.kept.ls, path, detail=detail)

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        if mode != "rb":
            raise io.UnsupportedOperation(mode)
        return _FlakyReader(self, self.ask(self.kept.cat_file, path))

    def put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        self.ask(self.kept.pipe_file, rpath, Path(lpath).read_bytes())

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self.ask(self.kept.makedirs, path, exist_ok=exist_ok)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        self.ask(self.kept.mkdir, path, create_parents=create_parents)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        self.ask(self.kept.cp_file, path1, path2)

    def rmdir(self, path: str) -> None:
        self.ask(self.kept.rmdir, path)

    def rm_file(self, path: str) -> None:
        self.ask(self.kept.rm_file, path)


class _SizedReader(io.BytesIO):
    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.size = len(content)


class _FlakyReader(_SizedReader):
    def __init__(self, system: Flaky, content: bytes) -> None:
        super().__init__(content)
        self._system = system

    def read(self, size: int | None = -1) -> bytes:
        limit = 1000 if size is None or size < 0 else min(size, 1000)
        data: bytes = self._system.ask(super().read, limit)
        return data


class Parts(AbstractFileSystem):
    """A store whose multipart uploads are invisible until the last part completes them."""

    protocol = "parts"
    root_marker = "/"
    cachable = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.kept = MemoryFileSystem(global_store=False, skip_instance_cache=True)
        self.uploads: dict[str, list[bytes]] = {}
        self.fail_part: int | None = None
        for name in ("info", "ls", "makedirs", "cp_file", "rm_file", "rmdir"):
            setattr(self, name, getattr(self.kept, name))

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return f"/{path.removeprefix('parts://').strip('/')}".rstrip("/")

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        if mode == "rb":
            return _SizedReader(self.kept.cat_file(path))
        return _PartsFile(self, path, mode, block_size=1 << 20)


class _PartsFile(AbstractBufferedFile):
    def _initiate_upload(self) -> None:
        self.fs.uploads[self.path] = []

    def _upload_chunk(self, final: bool = False) -> bool:
        parts = self.fs.uploads[self.path]
        if self.fs.fail_part == len(parts):
            self.fs.fail_part = None
            raise TimeoutError("the part was not acknowledged")
        parts.append(self.buffer.getvalue())
        if final:
            self.fs.kept.pipe_file(self.path, b"".join(parts))
            del self.fs.uploads[self.path]
        return True

    def discard(self) -> None:
        self.fs.uploads.pop(self.path, None)


class _Ranges(http.server.SimpleHTTPRequestHandler):
    """An HTTP handler that serves a directory and supports Range requests.

    The first `fail` requests get a 503 response. If `streams` is true, the handler sends no length
    and ignores Range, as servers do for generated pages.
    """

    protocol_version = "HTTP/1.1"
    fail = 0
    streams = False

    def log_message(self, *_: object) -> None:
        pass

    def send_head(self) -> Any:
        if type(self).fail > 0:
            type(self).fail -= 1
            self.close_connection = True
            self.send_error(503)
            return None
        path = self.translate_path(self.path)
        byte_range = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if os.path.isdir(path) or not os.path.exists(path):
            return super().send_head()
        content = Path(path).read_bytes()
        if self.streams:
            self.close_connection = True
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            return io.BytesIO(content)
        begin = int(byte_range.group(1)) if byte_range else 0
        end = (
            min(int(byte_range.group(2)) + 1, len(content))
            if byte_range and byte_range[2]
            else len(content)
        )
        if byte_range and begin >= len(content):
            self.send_error(416)
            return None
        self.send_response(206 if byte_range else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(end - begin))
        if byte_range:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")
        self.end_headers()
        return io.BytesIO(content[begin:end])


@contextmanager
def served(directory: Path, **options: Any) -> Iterator[tuple[str, Any]]:
    """Serve a directory over HTTP; yield its URL and the handler class, which tests configure."""
    handler = type("_Handler", (_Ranges,), options)
    handler_factory = functools.partial(handler, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler_factory) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", handler
        finally:
            server.shutdown()
            thread.join()


NAMES = (
    "local",
    "memory",
    "zip",
    "http",
    "flaky",
    "parts",
    "registered",
    "strict",
    "objects",
    *INSTALLED,
)
WRITABLE = tuple(name for name in NAMES if name not in ("zip", "http"))


@contextmanager
def backend(name: str, directory: Path, files: Mapping[str, bytes] = CONTENT) -> Iterator[Backend]:
    """Yield the backend named `name`, with `files` under its root."""
    with ExitStack() as stack:
        created = _create(name, directory, files, stack)
        if created.writable:
            for file, content in files.items():
                gfile.MakeDirs(os.path.dirname(created.path(file)))
                with gfile.Open(created.path(file), "wb") as new:
                    new.write(content)
        yield created


def _create(name: str, directory: Path, files: Mapping[str, bytes], stack: ExitStack) -> Backend:
    if name == "local":
        return Backend(name, str(directory / "local"), real_directories=True)
    if name == "memory":
        root = f"memory://{directory.name}"
        stack.callback(lambda: gfile.DeleteRecursively(root))
        return Backend(name, root)
    if name == "zip":
        archive = directory / "content.zip"
        with zipfile.ZipFile(archive, "w") as new:
            for file, content in files.items():
                new.writestr(file, content)
        return Backend(name, f"zip://::{archive}", writable=False)
    if name == "http":
        for file, content in files.items():
            (directory / "served" / file).parent.mkdir(parents=True, exist_ok=True)
            (directory / "served" / file).write_bytes(content)
        url, _ = stack.enter_context(served(directory / "served"))
        return Backend(name, url, writable=False, urls=True)
    if name in INSTALLED:
        return Backend(name, f"{new_bucket(name)}/box")
    if name == "registered":
        system = DirFileSystem(str(directory / "kept"), LocalFileSystem(auto_mkdir=True))
        gfile.register_scheme("kept", system, rename_commits=True, overwrite=True)
        return Backend(name, "kept://box")
    factories: dict[str, Any] = {
        "flaky": Flaky,
        "parts": Parts,
        "strict": lambda: Strict(global_store=False, skip_instance_cache=True),
        "objects": Objects,
    }
    gfile.register_scheme(name, factories[name], retry=QUICK, overwrite=True)
    return Backend(name, f"{name}://box")
