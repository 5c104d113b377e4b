# SPDX-License-Identifier: Apache-2.0
"""Run checks in a worker process, which is replaced if it dies or hangs."""

from __future__ import annotations

import gc
import multiprocessing
import os
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from tests.conformance.rows import Outcome, Row, add
from torch_google.tpu.testing.quick_compiler import XLA_FLAGS

# The number of samples after which a new process starts, because compiled programs are never freed.
_SAMPLES = 2000


class Worker:
    """A worker process, started by the first check and stopped at the end of the context."""

    def __init__(self, *, seconds: float) -> None:
        """`seconds` is the timeout per sample. Starting the process may take another 60 s."""
        self._seconds = seconds
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None
        self._samples = 0

    def run(self, op: str, dtype: str, check: str, samples: int | None) -> list[Row]:
        """Run `samples` samples (all if None), and return the rows.

        If a sample crashes the process or times out, the row ends with that outcome.
        """
        connection = self._started()
        checks = ("forward", "strides") if check == "forward" else (check,)
        rows = [Row(op, dtype, name, Outcome.EMPTY) for name in checks]
        try:
            connection.send((op, dtype, check, samples))
            while connection.poll(self._seconds):
                more: list[Row] | None = connection.recv()
                if more is None:
                    # In `refused`, samples that the CPU accepts do not count, because nothing is
                    # compiled for them.
                    self._samples += rows[0].samples if check == "refused" else rows[0].taken
                    if self._samples >= _SAMPLES:
                        self.stop()
                    return rows
                rows = more
            outcome, message = Outcome.SLOW, f"more than {self._seconds:g} s"
            self.stop()
        except (EOFError, ConnectionError):
            code = self.stop()
            outcome, message = Outcome.CRASHED, f"the process ended with status {code}"
        return [add(row, outcome, None, message) for row in rows]

    def stop(self) -> int | None:
        """Stop the process and return its exit status, or None if no process is running."""
        if self._process is None or self._connection is None:
            return None
        self._connection.close()
        self._process.join(1)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        code = self._process.exitcode
        self._process = self._connection = None
        self._samples = 0
        return code

    def _started(self) -> Connection:
        if self._connection is None:
            # Use spawn, because forking is unsafe once this process has used a device.
            context = multiprocessing.get_context("spawn")
            self._connection, worker_end = context.Pipe()
            self._process = context.Process(target=_serve, args=(worker_end,), daemon=True)
            self._process.start()
            worker_end.close()
            try:
                ready = self._connection.poll(60 + self._seconds) and self._connection.recv()
            except EOFError:
                ready = None
            if not ready:
                raise RuntimeError(
                    f"conformance: the worker process ended with status {self.stop()}. Its output "
                    "is above; `python -c 'import torch; torch.ones(1).tpu()'` prints the error"
                )
        return self._connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _serve(connection: Connection) -> None:
    os.environ["XLA_FLAGS"] = f"{XLA_FLAGS} {os.environ.get('XLA_FLAGS', '')}"
    os.environ.setdefault("TORCH_TPU_PLATFORM", "cpu")
    # Disable CPU kernels, because the checks test the lowerings.
    os.environ["TORCH_TPU_CPU_KERNELS"] = "0"
    # Import these modules lazily, because only the worker process needs them.
    import torch
    from jax._src.interpreters import mlir

    from tests.conformance.samples import operators
    from tests.conformance.trial import attempt
    from torch_google.tpu import autoload

    torch.set_num_threads(1)
    autoload()
    torch.tpu.init()
    # Share one MLIR context among all modules, because creating one for each would take a fifth of
    # the total time.
    context = mlir.make_ir_context()
    mlir.make_ir_context = lambda: context
    table = operators()
    gc.freeze()
    connection.send("ready")
    while True:
        try:
            op, dtype, check, samples = connection.recv()
        except EOFError:
            return
        for rows in attempt(table[op], getattr(torch, dtype), check, samples):
            connection.send(rows)
        connection.send(None)
