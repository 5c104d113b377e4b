# SPDX-License-Identifier: Apache-2.0
"""Run jobs on Ray clusters that reject requests, fail or lose connections.

A fake server replaces Ray's dashboard here; ray_test.py uses a real cluster.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from torch_google.launch.submit import main, ray
from torch_google.launch.submit.ray_cluster import Cluster, HttpError

_LOG = "Running entrypoint\n[0] one\n[0] two\n[1] last"


class _Dashboard:
    """A server that responds like Ray's dashboard.

    answers: responses that replace the usual ones, by method and path.
    """

    def __init__(self) -> None:
        self.answers: dict[str, web.Response] = {}
        self.calls: list[str] = []
        self.statuses = ["RUNNING", "SUCCEEDED"]
        self.cuts = [len(_LOG)]  # where each connection to a log ends; the last one is complete
        self.drops = 0  # how many requests for a job's state lose their connection
        self.address = ""
        self._ready = threading.Event()

    def __enter__(self) -> _Dashboard:
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),))
        self._thread.start()
        assert self._ready.wait(300)
        return self

    def __exit__(self, *_error: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=100 << 20)
        app.router.add_route("GET", "/api/jobs/{name}/logs/tail", self._tail)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._ready.set()
        await self._end.wait()
        await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        call = f"{request.method} {request.path}"
        self.calls.append(call)
        for start, answer in self.answers.items():
            if call.startswith(start):
                # Copy the response, because aiohttp can send each object only once.
                return web.Response(status=answer.status, text=answer.text)
        if request.path == "/api/version":
            return web.json_response({"ray_version": "2.60.0"})
        if request.path == "/api/v0/nodes":
            rows = [_node("10.0.0.1", is_head_node=True), _node("10.0.0.2", state="DEAD")]
            return web.json_response({"data": {"result": {"result": rows}}})
        if request.method == "GET" and request.path.startswith("/api/jobs/"):
            if self.drops:
                self.drops -= 1
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
            return web.json_response({"status": status, "driver_exit_code": 5})
        return web.json_response({})

    async def _tail(self, request: web.Request) -> web.WebSocketResponse:
        response = web.WebSocketResponse()
        await response.prepare(request)
        cut = self.cuts.pop(0)
        for start in range(0, cut, 10):
            await response.send_str(_LOG[start : min(start + 10, cut)])
        if cut and cut < len(_LOG):
            assert request.transport is not None
            request.transport.abort()
        return response


def _node(address: str, *, is_head_node: bool = False, state: str = "ALIVE") -> dict[str, object]:
    return {
        "node_ip": address,
        "is_head_node": is_head_node,
        "state": state,
        "resources_total": {"CPU": 2.0},
    }


@pytest.fixture
def dashboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Dashboard]:
    monkeypatch.setattr(ray, "_POLL", 0.01)
    monkeypatch.setattr("torch_google.launch.submit.ray_cluster._PAUSE", 0.01)
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_JOB_HEADERS"):
        monkeypatch.delenv(name, raising=False)
    with _Dashboard() as server:
        yield server


def _submit(dashboard: _Dashboard, *options: str) -> int:
    ray_options = ["--address=" + dashboard.address, "--no-upload", *options]
    return main.main(
        ["--par=/shared/x.par", "--scheduler=ray", *(f"--option={text}" for text in ray_options)]
    )


@pytest.mark.parametrize(
    ("answers", "options", "message"),
    [
        (
            {"GET /api/version": web.json_response({"ray_version": "2.8.1"})},
            [],
            "has Ray 2.8.1; update it to 2.9 or later",
        ),
        (
            {"GET /api/version": web.Response(status=404, text="nothing")},
            [],
            "is not the dashboard of a Ray cluster: it has no /api/version",
        ),
        (
            {"GET /api/version": web.Response(text="<html>")},
            [],
            "is not the dashboard of a Ray cluster: /api/version names no version",
        ),
        (
            {"GET /api/version": web.Response(status=401, text="a token is needed")},
            [],
            "/api/version: HTTP status 401: a token is needed; set RAY_JOB_HEADERS",
        ),
        (
            {"POST /api/jobs": web.Response(status=500, text="Traceback\n  x\nValueError: no")},
            [],
            "/api/jobs/: HTTP status 500: ValueError: no",
        ),
        (
            {},
            ["--entrypoint-num-gpus=4"],
            "the cluster has 0 nodes with 4 GPU, and --machines=1; start more nodes",
        ),
    ],
)
def test_a_cluster_that_refuses_gives_one_line(
    dashboard: _Dashboard,
    answers: dict[str, web.Response],
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dashboard.answers = answers
    dashboard.statuses = ["STOPPED"]
    assert _submit(dashboard, *options) == 3
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_no_cluster_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as reserved:  # it does not listen, and no other process gets its port
        reserved.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        options = ["--scheduler=ray", f"--option=--address={address}"]
        assert main.main(["--par=x.par", *options]) == 3
    error = capsys.readouterr().err
    assert error.startswith(f"submit: no Ray cluster responds at {address}: [Errno 111]")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--address=HOST:8265", "--option=--address=HOST:8265: expected the URL of Ray's"),
        ("--headers=token", "--option=--headers or RAY_JOB_HEADERS: expected a JSON object"),
        ("--x", "--option: unrecognized arguments: --x"),
    ],
)
def test_a_wrong_option_is_one_line(
    option: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["--par=x.par", "--scheduler=ray", f"--option={option}"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"submit: {message}")
    assert error.count("\n") == 1


def test_a_missing_program_is_one_line(
    dashboard: _Dashboard, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = ["--scheduler=ray", f"--option=--address={dashboard.address}"]
    assert main.main([f"--par={tmp_path}/x.par", *options]) == 3
    error = capsys.readouterr().err
    assert error == f"submit: {tmp_path}/x.par: No such file or directory; give --par=PATH\n"


def test_lost_connections_lose_no_line(
    dashboard: _Dashboard, capsys: pytest.CaptureFixture[str]
) -> None:
    dashboard.cuts = [25, 33, len(_LOG)]
    dashboard.drops = 3
    assert _submit(dashboard) == 0
    output, errors = capsys.readouterr()
    assert output.splitlines() == _LOG.splitlines()
    assert errors.splitlines()[1:] == [
        "submit: 1 machines: 1 RUNNING",
        "submit: 1 machines: 1 SUCCEEDED",
        "submit: succeeded",
    ]


def test_a_log_that_is_missing_is_reported(
    dashboard: _Dashboard, capsys: pytest.CaptureFixture[str]
) -> None:
    dashboard.cuts = [0]
    assert _submit(dashboard) == 0
    assert "/logs/tail is empty; the agent of its node may be gone" in capsys.readouterr().err


def test_the_status_is_that_of_the_program(dashboard: _Dashboard) -> None:
    dashboard.statuses = ["RUNNING", "FAILED"]
    assert _submit(dashboard) == 5
    assert any(call.endswith("/stop") for call in dashboard.calls)


def test_an_elastic_job_may_lose_a_machine(
    dashboard: _Dashboard, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [_node("10.0.0.1"), _node("10.0.0.2")]
    nodes = {"data": {"result": {"result": rows}}}
    dashboard.answers = {"GET /api/v0/nodes": web.json_response(nodes)}
    dashboard.cuts = [len(_LOG), len(_LOG)]
    dashboard.statuses = ["RUNNING", "FAILED", "SUCCEEDED"]
    options = [f"--option=--address={dashboard.address}", "--option=--no-upload"]
    elastic = ["--machines=2", "--min-machines=1"]
    assert main.main(["--par=/x.par", "--scheduler=ray", *options, *elastic]) == 0
    assert "failed: no reason is given" in capsys.readouterr().err
    assert not any(call.endswith("/stop") for call in dashboard.calls)


def test_a_package_that_is_too_large_is_an_error(dashboard: _Dashboard) -> None:
    cluster = Cluster(dashboard.address)
    dashboard.answers = {"PUT ": web.Response(status=413, text="too large")}
    with pytest.raises(HttpError, match="HTTP status 413: too large"):
        cluster.upload_package("x.zip", b"x")
