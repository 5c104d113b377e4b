# SPDX-License-Identifier: Apache-2.0
"""Start ranks once, for many test cases, because importing torch and JAX takes seconds."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import torch.distributed as dist

# The number of seconds after which a test case is considered hung.
_TIMEOUT = 300.0
# The number of seconds that the other ranks have to finish after one has failed.
_AFTER_FAILURE = 5.0
# The number of seconds that a hung rank has to dump its stack before it is killed.
_GRACE = 2.0
# The number of lines from the end of a rank's log that an error message quotes.
_TAIL = 60


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A case's result. `error` is empty if all ranks passed.

    The other fields are the maxima over all ranks.
    """

    error: str
    difference: float
    seconds: float
    compiles: int


class CaseFailed(AssertionError):
    """A case failed in at least one rank."""


class CaseRanks:
    """A group of `size` rank processes, which run cases by name.

    After a failure, all processes are replaced, because their states may have diverged.
    """

    def __init__(self, size: int, *, environment: Mapping[str, str] | None = None) -> None:
        self.size = size
        self._environment = dict(environment or {})
        self._store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self._root = pathlib.Path(tempfile.mkdtemp(prefix="ranks."))
        self._processes: list[subprocess.Popen[str]] = []
        self._count = 0

    def __enter__(self) -> CaseRanks:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the processes, and delete their logs and directories."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        deadline = time.monotonic() + _AFTER_FAILURE
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(deadline - time.monotonic(), 0.1))
        self._kill()
        shutil.rmtree(self._root, ignore_errors=True)

    def check(self, case: str, mode: str, directory: pathlib.Path | None = None) -> Outcome:
        """Run a case. If it fails, raise CaseFailed with the errors of all ranks."""
        outcome = self.run(case, mode, directory)
        if outcome.error:
            raise CaseFailed(f"{case} in {mode}, {self.size} ranks:\n{outcome.error}")
        return outcome

    def run(self, case: str, mode: str, directory: pathlib.Path | None = None) -> Outcome:
        """Run a case in all ranks, in a new directory unless one is given."""
        self._request(case, mode, directory)
        replies = self._replies()
        errors = [f"rank {rank}: {r['error']}" for rank, r in enumerate(replies) if r["error"]]
        if errors:
            self._kill()
        return Outcome(
            "\n".join(errors),
            *(
                max(reply[key] for reply in replies)
                for key in ("difference", "seconds", "compiles")
            ),
        )

    def kill_when(
        self, ready: Callable[[], bool], case: str, mode: str, directory: pathlib.Path
    ) -> None:
        """Start a case, and kill all ranks as soon as `ready()` returns true."""
        self._request(case, mode, directory)
        deadline = time.monotonic() + _TIMEOUT
        while not ready():
            assert time.monotonic() < deadline, f"{case}: not ready after {_TIMEOUT} s"
            assert all(process.poll() is None for process in self._processes), self._tail(0)
            time.sleep(0.001)
        self._kill()

    def _request(self, case: str, mode: str, directory: pathlib.Path | None) -> None:
        if not self._processes:
            self._start()
        self._count += 1
        if directory is None:
            directory = self._root / f"case{self._count}"
            directory.mkdir()
        request = {
            "id": f"case{self._count}",
            "port": self._store.port,
            "case": case,
            "mode": mode,
            "directory": str(directory),
        }
        for process in self._processes:
            assert process.stdin is not None
            # Ignore a rank that has exited, because `_replies` reports it.
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()

    def _start(self) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            "OMP_NUM_THREADS": "1",
            **self._environment,
        }
        command = [sys.executable, "-m", "tests.distributed.rank_process"]
        for index in range(self.size):
            with self._log(index).open("w") as log:
                self._processes.append(
                    subprocess.Popen(
                        [*command, str(index), str(self.size)],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=log,
                        text=True,
                        env=environment,
                    )
                )

    def _replies(self) -> list[dict[str, Any]]:
        replies: dict[int, dict[str, Any]] = {}
        deadline = time.monotonic() + _TIMEOUT
        with selectors.DefaultSelector() as selector:
            for index, process in enumerate(self._processes):
                assert process.stdout is not None
                selector.register(process.stdout, selectors.EVENT_READ, index)
            while len(replies) < self.size and time.monotonic() < deadline:
                for key, _ in selector.select(0.5):
                    index = key.data
                    selector.unregister(key.fileobj)
                    replies[index] = self._reply(index)
                    if replies[index]["error"]:
                        deadline = min(deadline, time.monotonic() + _AFTER_FAILURE)
        hanging = [index for index in range(self.size) if index not in replies]
        for index in hanging:
            self._processes[index].send_signal(signal.SIGUSR1)
        if hanging:
            time.sleep(_GRACE)
        for index in hanging:
            replies[index] = _failure(f"did not end. Its log:\n{self._tail(index)}")
        return [replies[index] for index in range(self.size)]

    def _reply(self, index: int) -> dict[str, Any]:
        process = self._processes[index]
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            return _failure(f"ended with status {process.wait()}. Its log:\n{self._tail(index)}")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _log(self, index: int) -> pathlib.Path:
        return self._root / f"rank{index}.log"

    def _tail(self, index: int) -> str:
        return "\n".join(self._log(index).read_text(errors="replace").splitlines()[-_TAIL:])

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._processes = []


def _failure(error: str) -> dict[str, Any]:
    return {"error": error, "difference": 0.0, "seconds": 0.0, "compiles": 0}
