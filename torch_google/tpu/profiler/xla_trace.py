# SPDX-License-Identifier: Apache-2.0
"""Records XLA traces that include the user's torch.profiler.record_function ranges."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import torch

from torch_google.tpu.profiler.operator_names import name_operators
from torch_google.tpu.profiler.origins import recorded
from torch_google.tpu.profiler.ranges import ranges
from torch_google.tpu.runtime import memory_history


class Trace:
    """The files of a trace, which exist once the `trace` block has ended."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._run: Path | None = None

    @property
    def xplane(self) -> Path:
        """Return the path of the trace file for TensorBoard and XProf."""
        return self._file("*.xplane.pb")

    @property
    def perfetto(self) -> Path:
        """Return the path of the gzipped JSON for https://ui.perfetto.dev and chrome://tracing."""
        return self._file("perfetto_trace.json.gz")

    def step(self, number: int) -> AbstractContextManager[None]:
        """Return a context that marks one training step in the trace.

        If a memory history is being recorded, the step is marked there as well.
        """
        return _step(number)

    def ended(self, run: Path) -> None:
        """Store the directory that JAX created for this trace."""
        self._run = run

    def _file(self, pattern: str) -> Path:
        if self._run is None:
            raise RuntimeError(
                f"torch.tpu.profiler: the trace into {self.directory} is still running. "
                "Leave its block first"
            )
        return next(self._run.glob(pattern))


def step(number: int) -> AbstractContextManager[None]:
    """Return a context that marks one training step.

    The step is marked in the running trace and in the memory history, if they are being recorded.
    """
    return _step(number)


@contextmanager
def _step(number: int) -> Iterator[None]:
    import jax

    with (
        jax.profiler.StepTraceAnnotation("step", step_num=number),
        memory_history.annotate(f"step {number}"),
    ):
        yield


_running: list[Path] = []
_lock = threading.Lock()


@contextmanager
def trace(directory: str | os.PathLike[str], *, python: bool = False) -> Iterator[Trace]:
    """Trace all devices and threads during a block, and write the files when it ends.

    The trace contains each operator's program, named after the operator (`jit(aten_mm)`), the
    kernels of fused programs, named after the operators that they compute, and all
    torch.profiler.record_function ranges, including those of optimizers. The kernels of fused
    programs are annotated with the modules and source lines of their operators. `python` adds calls
    to Python functions, which is slow. On entry and on exit, the block waits for the devices.

    Raises RuntimeError if a trace is already running in this process.
    """
    import jax

    where = Path(directory)
    where.mkdir(parents=True, exist_ok=True)
    torch.tpu.init()
    _synchronize()  # the trace must not contain the end of earlier programs
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = int(python)
    with _lock:
        _refuse(_running)
        try:
            jax.profiler.start_trace(where, create_perfetto_trace=True, profiler_options=options)
        except RuntimeError as error:
            raise RuntimeError(
                f"torch.tpu.profiler: JAX cannot start a trace into {where}: {error} End the trace "
                "started by jax.profiler first"
            ) from error
        _running.append(where)
    trace = Trace(where)
    try:
        with ranges(), recorded() as recording:
            yield trace
            _synchronize()
    finally:
        with _lock:
            _running.clear()
            jax.profiler.stop_trace()
    trace.ended(_newest(where))
    name_operators(trace.perfetto, trace.xplane, recording)


def _refuse(running: list[Path]) -> None:
    if running:
        raise RuntimeError(
            f"torch.tpu.profiler: a trace into {running[0]} is running already, and a process has one at "
            "a time. Leave its block first"
        )


def _synchronize() -> None:
    for index in range(torch.tpu.device_count()):
        torch.tpu.synchronize(index)


def _newest(directory: Path) -> Path:
    runs = (directory / "plugins" / "profile").iterdir()
    return max(runs, key=lambda run: run.stat().st_mtime)
