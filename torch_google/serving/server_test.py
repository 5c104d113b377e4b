# SPDX-License-Identifier: Apache-2.0
"""Test a real server on loopback, in a separate process."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from torch_google.serving.testing.server_process import Response, ServerProcess
from torch_google.serving.testing.small_server import (
    EXIT,
    EXIT_CODE,
    FAIL,
    SLEEP,
    STOP,
    WAIT,
)

_COMMAND = [sys.executable, "-m", "torch_google.serving.testing.small_server"]
_BATCH, _QUEUE, _BODY = 4, 3, 2000
_PATIENCE = 300.0  # seconds
_LONG = ["--timeout=200", "--drain_timeout=200"]  # for tests that keep a worker busy
_GATES = itertools.count()


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory in which `_occupied` creates files to release its requests."""
    return tmp_path_factory.mktemp("gates")


@pytest.fixture(scope="module")
def server(gates: Path) -> Iterator[ServerProcess]:
    options = [f"--batch={_BATCH}", f"--queue={_QUEUE}", f"--body_bytes={_BODY}", *_LONG]
    # `--body_timeout` is short, because the test of an incomplete body waits for it, but long
    # enough for the bodies of all other requests to arrive.
    with ServerProcess([*_COMMAND, *options, "--body_timeout=4", f"--gates={gates}"]) as process:
        yield process


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


def _body(argument: float = 0.0, command: int = 0) -> dict[str, Any]:
    return {"inputs": {"x": [argument, command]}}


def _metric(server: ServerProcess, name: str) -> float:
    for line in server.get("/metrics").body.splitlines():
        if line.startswith(f"{name} "):
            return float(line.split()[1])
    raise AssertionError(f"no metric {name}")


def _until(server: ServerProcess, condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < end, server.log()
        time.sleep(0.02)


def _wait_for(server: ServerProcess, name: str, value: float) -> None:
    _until(server, lambda: _metric(server, name) == value)


def _is_closed(server: ServerProcess) -> bool:
    """Return whether the server has stopped accepting connections."""
    try:
        socket.create_connection(("127.0.0.1", server.port), _PATIENCE).close()
    except ConnectionError:
        return True
    return False


@contextlib.contextmanager
def _occupied(
    server: ServerProcess, threads: ThreadPoolExecutor, gates: Path, count: int = 1
) -> Iterator[list[Future[Response]]]:
    """Keep workers busy with `count` requests until the `with` block exits."""
    names = [next(_GATES) for _ in range(count)]
    try:
        futures = [threads.submit(server.post, _body(name, WAIT)) for name in names]
        _wait_for(server, "serving_in_work", count)
        yield futures
    finally:
        for name in names:
            (gates / str(name)).touch()


def test_requests_that_wait_become_a_batch(
    server: ServerProcess, threads: ThreadPoolExecutor, gates: Path
) -> None:
    with _occupied(server, threads, gates) as (first,):
        others = [threads.submit(server.post, _body()) for _ in range(_QUEUE)]
        _wait_for(server, "serving_queue_length", _QUEUE)
    assert first.result().body["size"] == 1
    assert [each.result().body["size"] for each in others] == [_QUEUE] * _QUEUE


def test_a_full_queue_answers_at_once(
    server: ServerProcess, threads: ThreadPoolExecutor, gates: Path
) -> None:
    with _occupied(server, threads, gates) as (first,):
        waiting = [threads.submit(server.post, _body()) for _ in range(_QUEUE)]
        _wait_for(server, "serving_queue_length", _QUEUE)
        refused = server.post(_body())
        assert not first.done()
    assert refused.status == 503
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.body["error"]["what"] == "the queue is full"
    assert refused.body["error"]["found"] == f"{_QUEUE} requests wait"
    assert {each.result().status for each in (first, *waiting)} == {200}


@pytest.mark.parametrize(
    ("body", "content_type", "status", "where"),
    [
        (b"{", "application/json", 400, "the body"),
        (b"{}", "text/plain", 415, "the header Content-Type"),
        (b" " * (_BODY + 1), "application/json", 413, "the body"),
        ({"inputs": {"x": [1, 2, 3]}}, "application/json", 422, "inputs.x"),
    ],
)
def test_a_request_that_is_refused(
    server: ServerProcess, body: Any, content_type: str, status: int, where: str
) -> None:
    response = server.post(body, content_type=content_type)
    assert response.status == status
    error = response.body["error"]
    assert error["where"] == where
    assert error["what"]
    assert error["found"]
    assert error["next"]


def _raw(server: ServerProcess, headers: dict[str, str], *parts: bytes) -> int:
    """Send parts of a body, but not its end, and return the response's status."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=_PATIENCE)
    connection.putrequest("POST", "/predict")
    for name, value in {"Content-Type": "application/json", **headers}.items():
        connection.putheader(name, value)
    connection.endheaders()
    for part in parts:
        connection.send(part)
    status = connection.getresponse().status
    connection.close()
    return status


def test_a_body_without_an_end(server: ServerProcess) -> None:
    assert _raw(server, {"Content-Length": "100"}, b"{") == 408


def test_a_body_of_unknown_length(server: ServerProcess) -> None:
    parts = [b"%x\r\n%s\r\n" % (1000, b" " * 1000)] * 3
    assert _raw(server, {"Transfer-Encoding": "chunked"}, *parts) == 413


def test_an_input_that_fails_does_not_fail_its_batch(
    server: ServerProcess, threads: ThreadPoolExecutor, gates: Path
) -> None:
    with _occupied(server, threads, gates) as (first,):
        good, bad = (threads.submit(server.post, _body(0, command)) for command in (0, FAIL))
        _wait_for(server, "serving_queue_length", 2)
    assert first.result().status == 200
    assert good.result().status == 200
    assert bad.result().status == 500
    assert bad.result().body["error"]["found"] == "ArithmeticError: no result for this input"
    assert "Traceback" in server.log()


def test_a_worker_that_dies_starts_again(
    server: ServerProcess, threads: ThreadPoolExecutor
) -> None:
    before = server.post(_body()).body["pid"]
    died = server.post(_body(0, EXIT))
    assert died.status == 500
    assert died.body["error"]["found"] == f"exit code {EXIT_CODE}"
    _until(server, lambda: server.get("/health").status == 200)
    assert server.post(_body()).body["pid"] != before
    assert 'serving_worker_restarts_total{worker="0"} 1\n' in server.get("/metrics").body


def test_the_pages_describe_the_model(server: ServerProcess) -> None:
    document = server.get("/openapi.json").body
    operation = document["paths"]["/predict"]["post"]
    content = operation["requestBody"]["content"]["application/json"]
    assert server.post(content["example"]).status == 200
    x = content["schema"]["properties"]["inputs"]["properties"]["x"]
    assert (x["minItems"], x["maxItems"], x["items"]["type"]) == (2, 2, "number")
    assert {"413", "422", "503", "504"} <= set(operation["responses"])
    page = server.get("/docs").body
    assert "float32 [2]" in page
    assert "//" not in page.replace("http://HOST", "")  # the page loads nothing from other sites


def test_the_metrics_count(server: ServerProcess) -> None:
    count = _metric(server, "serving_request_seconds_count")
    server.post(_body(0.2, SLEEP))
    assert _metric(server, "serving_request_seconds_count") == count + 1
    assert _metric(server, "serving_batch_seconds_sum") >= 0.2
    assert _metric(server, "serving_queue_limit") == _QUEUE
    (resident,) = (
        line
        for line in server.get("/metrics").body.splitlines()
        if line.startswith("serving_worker_resident_bytes{")
    )
    assert float(resident.split()[1]) > 1 << 20


def test_sigterm_loses_no_request(threads: ThreadPoolExecutor, gates: Path) -> None:
    # The drain delay must not elapse before this test has sent its last request.
    options = ["--batch=1", "--drain_delay=5", f"--gates={gates}", *_LONG]
    with ServerProcess([*_COMMAND, *options]) as server:
        with _occupied(server, threads, gates) as requests:
            requests += [threads.submit(server.post, _body()) for _ in range(3)]
            _wait_for(server, "serving_queue_length", 3)
            server.process.send_signal(signal.SIGTERM)
            _wait_for(server, "serving_draining", 1)
            assert server.get("/health").status == 503
            requests.append(threads.submit(server.post, _body()))
            _wait_for(server, "serving_queue_length", 4)
            _until(server, lambda: _is_closed(server))
        assert server.process.wait(_PATIENCE) == 0, server.log()
        assert {each.result().status for each in requests} == {200}


@pytest.mark.full
def test_an_end_that_takes_too_long_is_an_error(threads: ThreadPoolExecutor, gates: Path) -> None:
    options = ["--drain_timeout=0.5", "--timeout=200", f"--gates={gates}"]
    with ServerProcess([*_COMMAND, *options]) as server:
        with _occupied(server, threads, gates) as (request,):
            assert server.end() == 1
        assert re.search(r"1 requests had no response \S+ s after", server.log())
        with pytest.raises((ConnectionError, http.client.HTTPException, AssertionError)):
            assert request.result().status == 200


def _hang_in_authorize(server: ServerProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=_PATIENCE)
    connection.request("GET", "/health", headers={"X-Hang": "1"})
    assert connection.getresponse().status != 200


# For each component that can hang: a function that makes it hang, the text that the log must then
# contain, and the exit timeout. If the health check hangs, the deadline is expected to expire.
# Otherwise, the text must be logged before the deadline expires.
_HANGS = {
    "health": (lambda server: server.get("/health"), "the main thread is in small_server.py:", 3),
    "authorize": (_hang_in_authorize, "thread 'AnyIO worker thread' runs", 8),
    "predict": (
        lambda server: server.post(_body(0, STOP)),
        "has a batch of 1 and does not end; killing it",
        10,
    ),
}


@pytest.mark.parametrize("hang", _HANGS)
def test_a_part_that_hangs_does_not_delay_the_end(threads: ThreadPoolExecutor, hang: str) -> None:
    cause, name, exit_timeout = _HANGS[hang]
    options = ["--drain_timeout=0.5", f"--exit_timeout={exit_timeout}", "--timeout=200"]
    options += [] if hang == "predict" else [f"--hang={hang}"]
    with ServerProcess([*_COMMAND, *options]) as server:
        request = threads.submit(cause, server)
        _until(server, lambda: f"{hang} hangs\n" in server.log())
        assert not request.done()
        assert server.end() == 1, server.log()
        assert name in server.log()
        assert request.exception(_PATIENCE) or getattr(request.result(), "status", 0) != 200


def test_sigterm_ends_a_server_whose_model_loads() -> None:
    with ServerProcess([*_COMMAND, "--hang=setup"], ready=False) as server:
        assert server.end() == 0, server.log()


@pytest.mark.full
def test_workers_end_with_a_server_that_is_killed() -> None:
    with ServerProcess(_COMMAND) as server:
        worker = server.post(_body()).body["pid"]
        server.process.kill()
        server.process.wait()
        _until(server, lambda: not Path(f"/proc/{worker}").exists())


@pytest.mark.full
def test_connections_without_a_request_do_not_delay_the_end() -> None:
    options = ["--drain_delay=0.2", "--drain_timeout=100"]
    with ServerProcess([*_COMMAND, *options]) as server, contextlib.ExitStack() as stack:
        server.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(ConnectionError):
            while server.process.poll() is None:
                address = ("127.0.0.1", server.port)
                stack.enter_context(socket.create_connection(address, timeout=_PATIENCE))
        assert server.process.wait(_PATIENCE) == 0, server.log()


@pytest.mark.full
def test_a_second_signal_ends_the_server_at_once(threads: ThreadPoolExecutor, gates: Path) -> None:
    with ServerProcess([*_COMMAND, f"--gates={gates}", *_LONG]) as server:
        with _occupied(server, threads, gates) as (request,):
            server.process.send_signal(signal.SIGTERM)
            _until(server, lambda: _is_closed(server))
            assert server.end() == 1
        assert "A second signal ended it" in server.log()
        assert "lifespan" not in server.log()
        assert request.exception(_PATIENCE) or request.result().status != 200


@pytest.mark.full
def test_a_slow_request_gets_504() -> None:
    with ServerProcess([*_COMMAND, "--timeout=0.5"]) as server:
        assert server.post(_body(2.0, SLEEP)).status == 504
        assert server.post(_body()).status in (200, 504)


@pytest.mark.full
def test_two_workers_work_at_once(threads: ThreadPoolExecutor, gates: Path) -> None:
    options = ["--workers=2", "--batch=1", f"--gates={gates}", *_LONG]
    with ServerProcess([*_COMMAND, *options]) as server:
        _wait_for(server, 'serving_worker_ready{worker="0"}', 1)
        _wait_for(server, 'serving_worker_ready{worker="1"}', 1)
        with _occupied(server, threads, gates, count=2) as requests:
            pass
        responses = [each.result() for each in requests]
        assert [each.status for each in responses] == [200, 200], responses
        assert len({each.body["pid"] for each in responses}) == 2


@pytest.mark.full
def test_requests_wait_for_their_batch(threads: ThreadPoolExecutor) -> None:
    with ServerProcess([*_COMMAND, "--batch=2", "--batch_wait=100", "--timeout=200"]) as server:
        sizes = [each.body["size"] for each in threads.map(server.post, [_body()] * 2)]
        assert sizes == [2, 2]


@pytest.mark.full
def test_sigint_in_the_whole_group_loses_no_request(
    threads: ThreadPoolExecutor, gates: Path
) -> None:
    with ServerProcess(["setsid", *_COMMAND, f"--gates={gates}", *_LONG]) as server:
        with _occupied(server, threads, gates) as (request,):
            subprocess.run(["kill", "-INT", "--", f"-{server.process.pid}"], check=True)
            _until(server, lambda: _is_closed(server))
        assert server.process.wait(_PATIENCE) == 0, server.log()
        assert request.result().status == 200


def test_a_model_that_cannot_be_loaded_ends_the_server() -> None:
    result = subprocess.run(
        [*_COMMAND, "--device=broken"], capture_output=True, text=True, check=False, timeout=300
    )
    assert result.returncode == 1
    assert "small_server: worker 0: ValueError: the weights are missing" in result.stderr


@pytest.mark.full
@pytest.mark.parametrize("signals", [1, 2])
def test_requests_that_are_left_at_the_end_get_503(
    threads: ThreadPoolExecutor, gates: Path, signals: int
) -> None:
    drain_timeout = 0.5 if signals == 1 else 200
    options = ["--batch=1", "--timeout=200", f"--drain_timeout={drain_timeout}", f"--gates={gates}"]
    with ServerProcess([*_COMMAND, *options]) as server:
        with _occupied(server, threads, gates) as (first,):
            requests = [first, threads.submit(server.post, _body())]
            _wait_for(server, "serving_queue_length", 1)
            if signals == 2:
                server.process.send_signal(signal.SIGTERM)
                _wait_for(server, "serving_draining", 1)
            assert server.end() == 1
        assert "Traceback" not in server.log()
        for request in requests:
            response = request.result()
            assert response.status == 503
            what = "the server ended before the result was ready"
            assert response.body["error"]["what"] == what
