# SPDX-License-Identifier: Apache-2.0
"""Test many rows (see row.py) in worker processes, and resume an interrupted run."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from tests.upstream.row import Outcome, Result, Row
from torch_google.tpu.testing.quick_compiler import XLA_FLAGS

# Compiled programs are never freed, so start a new process after this many rows to limit memory to
# a few GB. The new process loads the earlier programs from the cache.
_ROWS_OF_A_PROCESS = 60


@dataclass(frozen=True)
class Sweep:
    """A function that tests many rows and yields their results.

    `run` takes a row and a number of samples; worker processes must be able to import it. `cache`
    is a directory for compiled programs. Results are appended to `file`. Rows that already have a
    result in `file` are skipped, unless they failed and `again` is true.
    """

    run: Callable[[Row, int], Result]
    samples: int
    cache: str
    file: Path | None = None
    again: bool = False

    def __call__(self, rows: Sequence[Row]) -> Iterator[Result]:
        """Yield a result for each row, from `file` or by running the row.

        The outcome of a row that terminates its process is CRASHED.
        """
        known = read(self.file, rows) if self.file and self.file.exists() else {}
        pool: ProcessPoolExecutor | None = None
        for row in rows:
            result = known.get(row)
            if result is None or (self.again and result.outcome in FAILURES):
                pool = pool or self._pool()
                try:
                    result = pool.submit(self.run, row, self.samples).result()
                except BrokenProcessPool:
                    result = Result(row, Outcome.CRASHED, 0, "the process ended")
                    pool.shutdown(wait=False)
                    pool = None
                if self.file:
                    with self.file.open("a", encoding="utf-8") as lines:
                        lines.write(_to_json(result) + "\n")
            yield result
        if pool:
            pool.shutdown()

    def _pool(self) -> ProcessPoolExecutor:
        # Spawn the workers, because an initialized device does not survive a fork.
        return ProcessPoolExecutor(
            1,
            multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(self.cache,),
            max_tasks_per_child=_ROWS_OF_A_PROCESS,
        )


FAILURES = (Outcome.WRONG, Outcome.UNSUPPORTED, Outcome.CRASHED)


def read(file: Path, rows: Sequence[Row]) -> dict[Row, Result]:
    """Map each row in `rows` that has results in `file` to its last result."""
    named = {(row.table.value, str(row)): row for row in rows}
    results = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        row = named.get((fields["table"], fields["row"]))
        if row is not None:
            outcome = Outcome(fields["outcome"])
            results[row] = Result(
                row, outcome, fields["samples"], fields["message"], fields["seconds"]
            )
    return results


def _to_json(result: Result) -> str:
    return json.dumps(
        {
            "table": result.row.table.value,
            "row": str(result.row),
            "outcome": result.outcome.value,
            "samples": result.samples,
            "message": result.message,
            "seconds": round(result.seconds, 2),
        }
    )


def _begin(cache: str) -> None:
    os.environ["XLA_FLAGS"] = f"{XLA_FLAGS} {os.environ.get('XLA_FLAGS', '')}"
    os.environ.setdefault("TORCH_TPU_CPU_KERNELS", "0")  # run programs, as on a TPU
    # Import torch here, because the parent process does not need it.
    import torch

    from torch_google.tpu import autoload

    torch.set_num_threads(1)
    autoload()
    torch.tpu.set_compile_cache(cache)
