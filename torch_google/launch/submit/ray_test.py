# SPDX-License-Identifier: Apache-2.0
"""Submit a real PAR to a real Ray cluster: a head and a second node, on loopback.

Run this test manually, with `ray` on PATH; see README.md.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from torch_google.launch.submit.ray_cluster import Cluster
from torch_google.launch.submit.scheduler import SubmitError
from torch_google.launch.testing import waiting

_PROGRAM = Path(__file__).parents[1] / "testing/sum.par"
_SUBMIT = (
    "from torch_google.launch.submit.main import main; import sys; sys.exit(main(sys.argv[1:]))"
)


def _ports(number: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Start a cluster of two nodes, and yield the URL of its dashboard."""
    ray = shutil.which("ray")
    assert ray is not None, "install ray[default] and put `ray` on PATH"
    directory = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # sockets need a short path
    gcs, dashboard, client, *agents = _ports(5)
    common = ["--block", "--disable-usage-stats", "--num-cpus=2", "--object-store-memory=80000000"]
    head = [
        "--head",
        f"--port={gcs}",
        "--node-ip-address=127.0.0.1",
        "--dashboard-host=127.0.0.1",
        f"--dashboard-port={dashboard}",
        f"--ray-client-server-port={client}",
        f"--temp-dir={directory}",
    ]
    other = [f"--address=127.0.0.1:{gcs}", "--node-ip-address=127.0.0.2"]
    url = f"http://127.0.0.1:{dashboard}"
    started = []
    try:
        for number, options in enumerate((head, other)):
            agent = f"--dashboard-agent-listen-port={agents[number]}"
            started.append(subprocess.Popen([ray, "start", *options, *common, agent]))
            _wait_for_nodes(url, number + 1, started[-1])
        yield url
    finally:
        for process in reversed(started):
            process.terminate()  # `ray start --block` then stops its node
            process.wait(60)
        shutil.rmtree(directory, ignore_errors=True)


def _wait_for_nodes(url: str, number: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 300
    while True:
        try:
            if len(Cluster(url).nodes()) >= number:
                return
        except (SubmitError, LookupError, ValueError):
            pass  # the dashboard is not ready
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(1)


def _submit(address: str, *arguments: str) -> subprocess.Popen[str]:
    options = [f"--par={_PROGRAM}", "--scheduler=ray", f"--option=--address={address}"]
    return subprocess.Popen(
        [sys.executable, "-c", _SUBMIT, *options, *arguments],
        env=dict(os.environ, PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_logs_of_all_ranks_are_one_stream(address: str) -> None:
    process = _submit(address, "--machines=2", "--processes=2", "--", "a b")
    output, errors = process.communicate(timeout=500)
    assert process.returncode == 0, output + errors
    rows = [re.fullmatch(r"\[(\d)\] ?(\{.*\})", line) for line in output.splitlines()]
    seen = {int(row[1]): json.loads(row[2]) for row in rows if row}
    assert sorted(seen) == [0, 1, 2, 3], output + errors
    for rank, row in seen.items():
        assert (row["rank"], row["sum"], row["arguments"]) == (rank, 10.0, ["a b"])
    assert "submit: the cluster has 100 % of sum.par\n" in errors
    assert errors.endswith("submit: 2 machines: 2 SUCCEEDED\nsubmit: succeeded\n")
    with urllib.request.urlopen(f"{address}/api/jobs/") as response:
        jobs = json.load(response)
    assert len({job["driver_node_id"] for job in jobs if job["type"] == "SUBMISSION"}) == 2


def test_a_program_that_the_nodes_have_is_not_uploaded(address: str) -> None:
    process = _submit(address, "--option=--no-upload", "--option=--entrypoint-num-cpus=1")
    output, errors = process.communicate(timeout=500)
    assert process.returncode == 0, output + errors
    assert '"sum": 1.0' in output
    assert "%" not in errors


def test_a_failure_of_one_rank_ends_the_job(address: str) -> None:
    process = _submit(address, "--option=--no-upload", "--machines=2", "--", "fail-in-rank-1")
    output, errors = process.communicate(timeout=500)
    assert process.returncode == 1, output + errors
    assert "-1: failed: Job entrypoint command failed with exit code 1" in errors
    assert "asked to fail" in output


def test_a_job_goes_on_without_a_machine(address: str) -> None:
    elastic = ["--machines=2", "--min-machines=1", "--max-restarts=3"]
    process = _submit(address, "--option=--no-upload", *elastic, "--", "lose-machine-1")
    output, errors = process.communicate(timeout=500)
    assert process.returncode == 0, output + errors
    assert re.search(r"-1: failed: Job entrypoint command failed with exit code (137|-9)", errors)
    assert '"rank": 0, "sum": 1.0' in output
    assert "submit: 2 machines: 1 FAILED, 1 SUCCEEDED\n" in errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_the_job(address: str, number: signal.Signals, tmp_path: Path) -> None:
    wait = ["--", f"wait-with-pid-in={tmp_path}"]
    process = _submit(address, "--option=--no-upload", "--machines=2", *wait)
    pids = waiting.wait_for_pids(tmp_path, 2, process, seconds=300)
    process.send_signal(number)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + number, output + errors
    assert errors.endswith("submit: cancelled\n")
    assert len(pids) == 2, output + errors
    assert not any(map(waiting.is_alive, pids)), output + errors
