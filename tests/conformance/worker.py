# SPDX-License-Identifier: Apache-2.0
"""A process of its own for trials: it may die or hang, and another takes its place."""

from __future__ import annotations

import gc
import multiprocessing
import os
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from tests.conformance.rows import Outcome, Row

# Programs run once: what makes them faster only costs time.
_XLA_FLAGS = (
    "--xla_cpu_multi_thread_eigen=false "
    "--xla_backend_optimization_level=0 "
    "--xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_parallel_codegen_split_count=1 "
    "--xla_cpu_use_fusion_emitters=false"
)

# Programs are never given back: a new process now and then keeps memory bounded.
_TRIALS = 400


class Worker:
    """Runs trials in a process that is started when needed. A context: at its end the process ends."""

    def __init__(self, *, seconds: float) -> None:
        """`seconds`: for each trial, and as many again for the start of the process."""
        self._seconds = seconds
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None
        self._trials = 0

    def run(self, op: str, dtype: str, check: str, samples: int) -> list[Row]:
        connection = self._started()
        checks = ("forward", "strides") if check == "forward" else (check,)
        try:
            connection.send((op, dtype, check, samples))
            if connection.poll(self._seconds):
                rows: list[Row] = connection.recv()
                self._trials += 1
                if self._trials >= _TRIALS:
                    self.stop()
                return rows
            outcome, message = Outcome.SLOW, f"more than {self._seconds:g} s"
            self.stop()
        except (EOFError, ConnectionError):
            code = self.stop()
            outcome, message = Outcome.CRASHED, f"the process ended with status {code}"
        return [Row(op, dtype, name, outcome, samples, 0, message) for name in checks]

    def stop(self) -> int | None:
        """End the process; return its status."""
        if self._process is None or self._connection is None:
            return None
        self._connection.close()
        self._process.join(1)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        code = self._process.exitcode
        self._process = self._connection = None
        self._trials = 0
        return code

    def _started(self) -> Connection:
        if self._connection is None:
            # A process with a device cannot be forked.
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
            if not self._connection.poll(60 + self._seconds):
                self.stop()
                raise RuntimeError("conformance: a process with the device does not start")
            self._connection.recv()
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
    os.environ["XLA_FLAGS"] = f"{_XLA_FLAGS} {os.environ.get('XLA_FLAGS', '')}"
    os.environ.setdefault("TORCH_TPU_PLATFORM", "cpu")
    # Imported here: the process that waits for this one needs none of it.
    import torch

    from tests.conformance.samples import operators
    from tests.conformance.trial import attempt
    from torch_google.tpu import autoload

    torch.set_num_threads(1)
    autoload()
    torch.tpu.init()
    table = operators()
    gc.freeze()
    connection.send("ready")
    while True:
        try:
            op, dtype, check, samples = connection.recv()
        except EOFError:
            return
        connection.send(attempt(table[op], getattr(torch, dtype), check, samples))
