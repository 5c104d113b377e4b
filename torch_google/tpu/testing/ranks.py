# SPDX-License-Identifier: Apache-2.0
"""Runs a test's functions on ranks, the processes of a process group.

Starting torch and JAX takes seconds, so all tests in a module share their ranks. A server process
imports both once per module, and forks the ranks.
"""

from __future__ import annotations

import datetime
import multiprocessing.forkserver
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing

from torch_google.tpu.testing import quick_compiler

# Modules that every rank uses and that start no threads. The server imports them before it forks.
_WARM_IMPORTS = [
    "jax",
    "torch_google.tpu.lowerings.families",
    "torch_google.tpu.registration",
    "torch_google.tpu.testing.ranks",
]
# Modules that the first call to torch.compile imports. The import takes 2 s of CPU time.
_COMPILER_IMPORTS = ["torch._inductor.compile_fx"]
# A test whose ranks hang fails after this many seconds, instead of blocking the whole run.
_PATIENCE = 300.0


class RankFailedError(AssertionError):
    """Raised if a function failed on a rank, or if the rank exited.

    The message has the function's traceback or the rank's exit code.
    """


class Ranks:
    """A process group of `size` processes, to be used as a context manager.

    `timeout` is the timeout of the process group, in seconds. `environ` adds environment variables
    to the processes. `compiles` specifies whether the processes call torch.compile.
    """

    def __init__(
        self,
        size: int,
        timeout: float = 120.0,
        environ: Mapping[str, str] | None = None,
        *,
        compiles: bool = False,
    ) -> None:
        self.size = size
        self._folder = tempfile.TemporaryDirectory()
        context = torch.multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_WARM_IMPORTS + (_COMPILER_IMPORTS if compiles else []))
        self._connections: list[Connection] = []
        self._processes: list[Any] = []
        store = str(Path(self._folder.name) / "store")
        for rank in range(size):
            connection, child_connection = context.Pipe()
            process = context.Process(
                target=_serve,
                args=(
                    child_connection,
                    store,
                    rank,
                    size,
                    timeout,
                    {**os.environ, **(environ or {})},
                ),
                daemon=True,
            )
            process.start()
            child_connection.close()
            self._connections.append(connection)
            self._processes.append(process)

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        self._folder.cleanup()

    def run(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Run `function(rank, *args)` on each rank, and return a list of the results.

        Raises RankFailedError if the function failed on a rank or the rank exited, and TimeoutError
        if a rank hangs.
        """
        self.start(function, *args)
        results: list[Any] = []
        errors: list[Exception] = []
        # Read the results of all ranks even if one fails, so that the next call does not read them.
        for rank in range(self.size):
            try:
                results.append(self.result(rank))
            except (RankFailedError, TimeoutError) as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return results

    def start(self, function: Callable[..., Any], *args: Any) -> None:
        """Start `function(rank, *args)` on each live rank."""
        for connection, process in zip(self._connections, self._processes, strict=True):
            if process.is_alive():
                connection.send((function, args))

    def result(self, rank: int) -> Any:
        """Wait for the function that was last started on a rank, and return its result."""
        connection = self._connections[rank]
        if not wait([connection], _PATIENCE):
            raise TimeoutError(f"rank {rank} has no result after {_PATIENCE:.0f} s")
        try:
            ok, value = connection.recv()
        except EOFError:
            self._processes[rank].join(10)
            code = self._processes[rank].exitcode
            raise RankFailedError(f"rank {rank} ended with the exit code {code}") from None
        if not ok:
            raise RankFailedError(f"rank {rank}:\n{value}")
        return value

    def signal(self, rank: int, number: signal.Signals) -> None:
        """Send a signal to a rank."""
        os.kill(self._processes[rank].pid, number)


def end_server() -> None:
    """Stop the server that forks ranks, and wait until it exits. The next `Ranks` restarts it."""
    multiprocessing.forkserver._forkserver._stop()  # type: ignore[attr-defined]


def caught(function: Callable[[], Any]) -> tuple[str, str]:
    """Return the type name and message of the error that `function` raises, or ("", "") if none."""
    try:
        function()
    except (RuntimeError, ValueError, TypeError) as error:
        return type(error).__name__, str(error)
    return "", ""


def wait_for_file(path: str) -> None:
    """Wait until another rank creates the file `path`. Raises TimeoutError if no rank does."""
    end = time.monotonic() + _PATIENCE
    while not os.path.exists(path):
        if time.monotonic() > end:
            raise TimeoutError(f"no file {path} after {_PATIENCE:.0f} s")
        time.sleep(0.01)


def shorten(rank: int, timeout: float) -> None:
    """Set the process group's timeout, in seconds, once all ranks have started.

    Starting the ranks may take longer than this timeout, so it must not apply until then.
    """
    dist.all_reduce(torch.zeros(1, device="tpu"))
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("tpu"))
    backend._set_default_timeout(datetime.timedelta(seconds=timeout))


def _serve(
    connection: Connection,
    store: str,
    rank: int,
    size: int,
    timeout: float,
    environ: Mapping[str, str],
) -> None:
    # The environment inherited from the server was meant for the module's first ranks, so replace
    # it.
    os.environ.clear()
    os.environ.update(environ)
    quick_compiler.use()
    torch.set_num_threads(1)
    from torch_google.tpu import registration

    registration.register()
    dist.init_process_group(
        store=dist.FileStore(store, size),
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=timeout),
    )
    while True:
        try:
            function, args = connection.recv()
        except EOFError:
            return
        try:
            answer = (True, function(rank, *args))
        except Exception:  # noqa: BLE001 - any error is the result of the call
            answer = (False, traceback.format_exc())
        connection.send(answer)
