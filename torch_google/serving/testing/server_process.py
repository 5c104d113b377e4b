# SPDX-License-Identifier: Apache-2.0
"""Start a server as a separate process, and send requests to it."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple

_PATIENCE = 300.0  # seconds; far more than an idle machine needs


class Response(NamedTuple):
    """A response. A JSON body is parsed, and any other body is a str."""

    status: int
    headers: Mapping[str, str]
    body: Any


class ServerProcess:
    """A server that runs until the end of a `with` block. It must log its address to stderr.

    If `ready` is False, the block begins before the model is loaded.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str] | None = None, *, ready: bool = True
    ) -> None:
        self._ready = ready
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by __exit__
        self.process = subprocess.Popen(command, stderr=self._log, env=env)
        self.port = 0

    def __enter__(self) -> ServerProcess:
        try:
            self._wait_until_ready()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def log(self) -> str:
        """Return the server's output on stderr so far."""
        self._log.seek(0)
        return self._log.read()

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal to the server, wait until it exits, and return its exit status."""
        self.process.send_signal(number)
        return self.process.wait(_PATIENCE)

    def get(self, path: str) -> Response:
        return self._request("GET", path, None, {})

    def post(
        self, body: Any, *, path: str = "/predict", content_type: str = "application/json"
    ) -> Response:
        """Send a POST request. `body` is bytes, or an object to encode as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._request("POST", path, data, {"Content-Type": content_type})

    def _request(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Response:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        kind = response.headers.get("content-type", "")
        content = json.loads(text) if kind.startswith("application/json") else text
        return Response(response.status, dict(response.headers), content)

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended: {self.log()}")
            address = re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.log())
            if address:
                self.port = int(address[1])
                if self.get("/health").status == 200 or not self._ready:
                    return
            time.sleep(0.05)
        raise TimeoutError(f"the server is not ready after {_PATIENCE:g} s: {self.log()}")

    def _end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._log.close()
