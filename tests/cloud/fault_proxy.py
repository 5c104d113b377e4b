# SPDX-License-Identifier: Apache-2.0
"""A local HTTP proxy that forwards requests to one server and injects network faults."""

from __future__ import annotations

import enum
import http.client
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_PIECES = 20
_SECONDS_A_PIECE = 0.05
_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


class Kind(enum.Enum):
    """A kind of fault. The value describes its effect on a request."""

    UNAVAILABLE = "the proxy returns 503, and the server gets no request"
    FORBIDDEN = "the proxy returns 403, and the server gets no request"
    RESET_REQUEST = "the connection is reset in the middle of the request's body"
    RESET_RESPONSE = "the connection is reset in the middle of the response's body"
    LOST_ANSWER = "the server handles the request, and the connection is reset before the response"
    SLOW = "the response's body arrives in small pieces, over a second"
    HANG = "the server gets no request, and the client no response until the proxy closes"


@dataclass
class Fault:
    """A fault that affects the next `times` requests with the given method and path.

    A request matches if its target contains `path` and its body has at least `least` bytes.
    """

    kind: Kind
    method: str
    path: str = ""
    times: int = 1
    least: int = 0
    hits: int = 0
    hit: threading.Event = field(default_factory=threading.Event)


class FaultProxy:
    """A proxy at `url`, which records the method and target of each request in `requests`."""

    def __init__(self, server: tuple[str, int]) -> None:
        self.server = server
        self.requests: list[tuple[str, str]] = []
        self.closed = threading.Event()
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.proxy = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The URL that the proxy listens on."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        """Stop listening, and reset the connections of hanging requests."""
        self.closed.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @contextmanager
    def faults(self, *faults: Fault) -> Iterator[None]:
        """Inject `faults` until the context exits."""
        with self._lock:
            self._faults = list(faults)
        try:
            yield
        finally:
            with self._lock:
                self._faults = []

    def take(self, method: str, target: str, length: int) -> Fault | None:
        """Record a request, and return the fault that affects it, if any."""
        with self._lock:
            self.requests.append((method, target))
            for fault in self._faults:
                if (
                    fault.method == method
                    and fault.path in target
                    and length >= fault.least
                    and fault.hits < fault.times
                ):
                    fault.hits += 1
                    fault.hit.set()
                    return fault
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    proxy: FaultProxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connection errors, because tests kill clients on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def forward(self) -> None:
        """Forward a request of any method, or inject a fault."""
        proxy = self.server.proxy
        length = int(self.headers.get("Content-Length") or 0)
        fault = proxy.take(self.command, self.path, length)
        kind = fault.kind if fault else None
        if kind is Kind.RESET_REQUEST:
            self.rfile.read(length // 2)
            self._reset()
            return
        body = self._body(length)
        if kind is Kind.HANG:
            proxy.closed.wait()
            self._reset()
            return
        if kind is Kind.UNAVAILABLE:
            self._answer(503, [("Retry-After", "0")], b"SlowDown", None)
            return
        if kind is Kind.FORBIDDEN:
            self._answer(403, [], b"", None)
            return
        status, headers, content = self._forward(body)
        if kind is Kind.LOST_ANSWER:
            self._reset()
            return
        self._answer(status, headers, content, kind)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward  # noqa: N815 - http.server's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Discard log messages."""

    def _body(self, length: int) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(length)
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(pieces)

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(*self.server.proxy.server, timeout=30)
        headers = {key: value for key, value in self.headers.items() if key.lower() not in _HOP}
        if self.command in ("PUT", "POST", "PATCH"):
            headers["Content-Length"] = str(len(body))
        connection.request(self.command, self.path, body=body or None, headers=headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        response_headers = [
            (key, value) for key, value in response.getheaders() if key.lower() not in _HOP
        ]
        if self.command == "HEAD":
            response_headers.append(("Content-Length", response.getheader("Content-Length") or "0"))
        return response.status, response_headers, content

    def _answer(
        self, status: int, headers: list[tuple[str, str]], content: bytes, kind: Kind | None
    ) -> None:
        self.send_response_only(status)
        for key, value in headers:
            self.send_header(key, value)
        if self.command != "HEAD" and status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if kind is Kind.RESET_RESPONSE:
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            self._reset()
        elif kind is Kind.SLOW:
            size = len(content) // _PIECES + 1
            for start in range(0, len(content), size):
                self.wfile.write(content[start : start + size])
                self.wfile.flush()
                time.sleep(_SECONDS_A_PIECE)
        else:
            self.wfile.write(content)

    def _reset(self) -> None:
        """Reset the connection (RST), as a crashed machine would."""
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True
        # Close `rfile` as well, because it also keeps the socket open.
        self.rfile.close()
        self.connection.close()
