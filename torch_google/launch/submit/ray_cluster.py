# SPDX-License-Identifier: Apache-2.0
"""A client for the REST API of a Ray cluster's dashboard. Ray need not be installed."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp

from torch_google.launch.submit.scheduler import SubmitError

# The oldest supported version of Ray. It supports every request and field that this module uses.
OLDEST = (2, 9)
_TIMEOUT = 120.0  # long, because a submission waits for the head's agent
_UPLOAD_TIMEOUT = 600.0
_TRIES = 10  # many attempts, because jobs keep running while the cluster's head is replaced
_PAUSE = 2.0


class HttpError(SubmitError):
    """Raised if a response has an HTTP error status. status: the status code."""

    def __init__(self, request: urllib.request.Request, status: int, body: str) -> None:
        lines = body.strip().splitlines() or ["no message"]
        hint = "; set RAY_JOB_HEADERS" if status in (401, 403) else ""
        super().__init__(
            f"{request.get_method()} {request.full_url}: HTTP status {status}: {lines[-1]}{hint}"
        )
        self.status = status


class Unreachable(SubmitError):
    """Raised if the cluster does not respond."""


@dataclasses.dataclass(frozen=True)
class Node:
    """A machine in the cluster. resources: its total resources, including those in use."""

    address: str
    is_head: bool
    resources: Mapping[str, float]


class Cluster:
    """A cluster. address: the URL of its dashboard. headers: HTTP headers for every request."""

    def __init__(self, address: str, headers: Mapping[str, str] | None = None) -> None:
        self.address = address.rstrip("/")
        self._headers = dict(headers or {})

    def check_version(self) -> str:
        """Return Ray's version. Raises SubmitError if it is too old or the server is not Ray."""
        try:
            version = str(self._json("GET", "/api/version")["ray_version"])
        except HttpError as error:
            if error.status != 404:
                raise
            raise SubmitError(self._not_ray("it has no /api/version")) from None
        except (KeyError, TypeError, ValueError):
            raise SubmitError(self._not_ray("/api/version names no version")) from None
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise SubmitError(f"{self.address} has Ray {version}; update it to {oldest} or later")
        return version

    def nodes(self) -> list[Node]:
        """Return the nodes that are alive."""
        answer = self._json("GET", "/api/v0/nodes?limit=10000&detail=1")
        rows = answer["data"]["result"]["result"]
        return [
            Node(row["node_ip"], bool(row["is_head_node"]), row.get("resources_total") or {})
            for row in rows
            if row["state"] == "ALIVE"
        ]

    def has_package(self, name: str) -> bool:
        """Return whether the cluster has a package. If so, extend its lifetime by a few minutes."""
        try:
            self._call("GET", f"/api/packages/gcs/{name}")
        except HttpError as error:
            if error.status != 404:
                raise
            return False
        return True

    def upload_package(self, name: str, data: bytes) -> None:
        """Upload a package, which must be smaller than Ray's limit of 100 MiB."""
        self._call("PUT", f"/api/packages/gcs/{name}", data, timeout=_UPLOAD_TIMEOUT)

    def submit(self, job: Mapping[str, Any]) -> None:
        self._json("POST", "/api/jobs/", json.dumps(job).encode())

    def job(self, name: str) -> dict[str, Any] | None:
        """Return the state of a job, or None if the cluster has no such job."""
        try:
            state: dict[str, Any] = self._json("GET", f"/api/jobs/{name}")
        except HttpError as error:
            if error.status != 404:
                raise
            return None
        return state

    def stop(self, name: str) -> None:
        """Request that the cluster stop a job. A no-op if the cluster has no such job."""
        try:
            self._call("POST", f"/api/jobs/{name}/stop")
        except HttpError as error:
            if error.status != 404:
                raise

    def tail(self, name: str, write: Callable[[str], None]) -> None:
        """Call `write` with each line of a job's log until the job ends.

        If the connection is lost, reconnect. Raises Unreachable if that fails repeatedly, or if the
        log is empty.
        """
        asyncio.run(self._tail(name, write))

    async def _tail(self, name: str, write: Callable[[str], None]) -> None:
        url = f"{self.address}/api/jobs/{name}/logs/tail"
        done = 0  # characters of the log that have been written
        failures = 0
        while True:
            position = 0  # Ray sends the log from its beginning
            rest = ""
            try:
                async with (
                    aiohttp.ClientSession(headers=self._headers, trust_env=True) as session,
                    session.ws_connect(url, max_msg_size=0) as socket,
                ):
                    async for message in socket:
                        if message.type is not aiohttp.WSMsgType.TEXT:
                            continue
                        new = message.data[max(done - position, 0) :]
                        position += len(message.data)
                        *lines, rest = (rest + new).split("\n")
                        for line in lines:
                            write(line)
                        done = max(done, position - len(rest))
                        failures = 0
                    if socket.close_code == aiohttp.WSCloseCode.OK:
                        if not position:
                            # Ray itself writes some lines to every log, so no log should be empty.
                            raise Unreachable(f"{url} is empty; the agent of its node may be gone")
                        if rest:
                            write(rest)
                        return
                    problem = f"closed with code {socket.close_code}"
            except (aiohttp.ClientError, OSError) as error:
                problem = str(error)
            failures += 1
            if failures == _TRIES:
                raise Unreachable(f"GET {url}: {problem}")
            await asyncio.sleep(_PAUSE)

    def _json(self, method: str, path: str, data: bytes | None = None) -> Any:
        return json.loads(self._call(method, path, data))

    def _call(
        self, method: str, path: str, data: bytes | None = None, timeout: float = _TIMEOUT
    ) -> bytes:
        request = urllib.request.Request(
            self.address + path,
            data,
            {"Content-Type": "application/json", **self._headers},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                body: bytes = response.read()
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode(errors="replace")
            raise HttpError(request, error.code, text) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise Unreachable(
                f"no Ray cluster responds at {self.address}: {reason}; correct "
                "--option=--address=URL, the URL of Ray's dashboard"
            ) from None
        return body

    def _not_ray(self, reason: str) -> str:
        return f"{self.address} is not the dashboard of a Ray cluster: {reason}"
