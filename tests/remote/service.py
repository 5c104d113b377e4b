# SPDX-License-Identifier: Apache-2.0
"""A Remote Execution service on loopback: BuildGrid, and one BuildBox worker with its cache."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.remote import buildbox

# With one connection, Bazel makes at most a hundred concurrent calls. BuildGrid rejects calls
# when all its threads are busy, and Bazel fails a build if a call is rejected.
OPTIONS = ("--remote_max_connections=1",)

_SETTINGS = Path(__file__).parent / "buildgrid.yml"
_SERVER = "from buildgrid.server.app import cli; cli()"
_START_SECONDS = 300
_STOP_SECONDS = 20


class ServiceError(Exception):
    """Raised if a process of the service fails. The message includes the end of its log."""


@contextlib.contextmanager
def running(directory: Path, *, jobs: int | None = None) -> Iterator[str]:
    """Run a service that stores its state in `directory`; yield its endpoint, grpc://HOST:PORT.

    `jobs` is the number of actions that the worker runs at once, by default the number of cores.
    """
    programs = buildbox.unpack(directory / "buildbox")
    with contextlib.ExitStack() as stack:
        server, cache = free_port(), free_port()
        settings = directory / "buildgrid.yml"
        storage = directory / "storage"
        settings.write_text(_SETTINGS.read_text().format(port=server, storage=storage))
        stack.enter_context(
            _part(
                [sys.executable, "-c", _SERVER, "server", "start", settings],
                directory / "buildgrid.log",
                port=server,
                environment=os.environ,
            )
        )
        remote = f"http://127.0.0.1:{server}"
        # buildbox-casd is the worker's cache: it fetches the inputs of actions from the server.
        casd: list[str | Path] = [programs / "buildbox-casd"]
        casd += [f"--cas-remote={remote}", f"--bind=127.0.0.1:{cache}", directory / "cache"]
        stack.enter_context(_part(casd, directory / "casd.log", port=cache))
        worker: list[str | Path] = [programs / "buildbox-worker"]
        worker += [
            f"--bots-remote={remote}",
            f"--cas-remote=http://127.0.0.1:{cache}",
            f"--buildbox-run={programs / 'buildbox-run-hosttools'}",
            "--runner-arg=--staging-mode=copy-or-link",
            "--runner-arg=--clearenv",  # Actions do not inherit the worker's environment.
            f"--concurrent-jobs={jobs or os.cpu_count() or 1}",
            "--log-level=info",
            "worker",
        ]
        stack.enter_context(_part(worker, directory / "worker.log"))
        yield f"grpc://127.0.0.1:{server}"


def free_port() -> int:
    """Return a free TCP port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def _part(
    argv: Sequence[str | Path],
    log: Path,
    *,
    port: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Run a process until the context exits. If `port` is given, wait until it accepts connections.

    By default, the process does not inherit this process's environment variables, so actions
    cannot depend on them.
    """
    with log.open("wb") as file:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            env=environment or {"PATH": "/usr/bin:/bin", "HOME": str(log.parent)},
        )
    try:
        if port is not None:
            _wait(process, port, log)
        yield
        if process.poll() is not None:
            raise ServiceError(_ended(process, log))
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServiceError(_ended(process, log))
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise ServiceError(f"{log.stem}: did not start within {_START_SECONDS} s. Log:\n{_end(log)}")


def _ended(process: subprocess.Popen[bytes], log: Path) -> str:
    return f"{log.stem}: exit status {process.returncode}. Log:\n{_end(log)}"


def _end(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:])
