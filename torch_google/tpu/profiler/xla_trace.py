# SPDX-License-Identifier: Apache-2.0
"""A trace of XLA's, with the ranges that the program names by torch.profiler.record_function."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from torch_google.tpu.profiler.ranges import ranges


class Trace:
    """Where a trace is, once its block has ended."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._run: Path | None = None

    @property
    def xplane(self) -> Path:
        """Return the file for TensorBoard and XProf."""
        return self._file("*.xplane.pb")

    @property
    def perfetto(self) -> Path:
        """Return the file for https://ui.perfetto.dev and chrome://tracing: JSON, compressed."""
        return self._file("perfetto_trace.json.gz")

    def ended(self, run: Path) -> None:
        """Note the folder that JAX has made for this trace."""
        self._run = run

    def _file(self, pattern: str) -> Path:
        if self._run is None:
            raise RuntimeError(
                f"torch.tpu.profiler: the trace into {self.directory} is still running. "
                "Leave its block first"
            )
        return next(self._run.glob(pattern))


_running: list[Path] = []
_lock = threading.Lock()


@contextmanager
def trace(directory: str | os.PathLike[str], *, python: bool = False) -> Iterator[Trace]:
    """Trace all devices and threads within a block, and write files into a directory at its end.

    The programs of operators are named for them (`jit(aten_mm)`), and the ranges of
    torch.profiler.record_function, those of optimizers too, by their names. `python` adds the calls
    of Python functions, which is slow. At its end the block waits for the devices.

    Raises RuntimeError where a trace is running already: there is one in a process.
    """
    import jax

    where = Path(directory)
    where.mkdir(parents=True, exist_ok=True)
    torch.tpu.init()
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = int(python)
    with _lock:
        _refuse(_running)
        try:
            jax.profiler.start_trace(where, create_perfetto_trace=True, profiler_options=options)
        except RuntimeError as error:
            raise RuntimeError(
                f"torch.tpu.profiler: JAX cannot start a trace into {where}: {error} End what was "
                "started by jax.profiler first"
            ) from error
        _running.append(where)
    found = Trace(where)
    try:
        with ranges():
            yield found
            _synchronize()
    finally:
        with _lock:
            _running.clear()
            jax.profiler.stop_trace()
    found.ended(_newest(where))


def _refuse(running: list[Path]) -> None:
    if running:
        raise RuntimeError(
            f"torch.tpu.profiler: a trace into {running[0]} is running already, and there is one in "
            "a process. Leave its block first"
        )


def _synchronize() -> None:
    for index in range(torch.tpu.device_count()):
        torch.tpu.synchronize(index)


def _newest(directory: Path) -> Path:
    runs = (directory / "plugins" / "profile").iterdir()
    return max(runs, key=lambda run: run.stat().st_mtime)
