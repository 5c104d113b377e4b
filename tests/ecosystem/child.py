# SPDX-License-Identifier: Apache-2.0
"""Run cases on the CPU and on tpu: `python -m tests.ecosystem.child RESULTS LIBRARY/CASE:MODE...`.

The program appends a line to RESULTS as soon as an outcome is known, because a case may crash the
process. The line `{"begins": KEY}` says which case and mode run next.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
import traceback
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path

from torch_google.tpu.testing import quick_compiler

# Set the environment variables before the imports below, because the device and some libraries read
# them only once.
quick_compiler.use()
os.environ.setdefault("TORCH_TPU_PLATFORM", "cpu")
os.environ.setdefault("TORCH_TPU_CPU_KERNELS", "0")  # run programs, as on a TPU
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy  # noqa: E402
import torch  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402

from tests.ecosystem import case as cases  # noqa: E402
from tests.ecosystem import cuda_stand_in  # noqa: E402
from tests.ecosystem.case import COMPILE, CPU, FUSED, Case, Run  # noqa: E402
from tests.ecosystem.results import Verdict, one_line  # noqa: E402

Values = Mapping[str, torch.Tensor]


class Journal:
    """A log of progress and outcomes, in a file that the parent process reads."""

    def __init__(self, file: Path) -> None:
        self._stream = file.open("a", encoding="utf-8")

    def begins(self, key: str) -> None:
        self._write({"begins": key})

    def ends(self, key: str, verdict: Verdict, cause: str = "") -> None:
        self._write({"ends": key, "verdict": verdict, "cause": cause})

    def _write(self, entry: Mapping[str, str]) -> None:
        print(json.dumps(entry), file=self._stream, flush=True)


def main(argv: list[str]) -> int:
    file, *keys = argv
    torch.set_num_threads(1)
    cuda_stand_in.load()
    journal = Journal(Path(file))
    table = cases.table()
    for name, several in itertools.groupby(keys, key=lambda key: key.partition(":")[0]):
        run(table[name], [key.partition(":")[2] for key in several], journal)
    return 0


def run(row: Case, modes: Iterable[str], journal: Journal) -> None:
    """Run a case on the CPU and, in each of `modes`, on tpu, and record the outcomes."""
    journal.begins(f"{row.key}:{CPU}")
    try:
        expected = values(row, CPU)
    except Exception as error:  # noqa: BLE001 - a library may raise anything
        for mode in modes:
            journal.ends(f"{row.key}:{mode}", Verdict.BROKEN, _cause(error))
        return
    for mode in modes:
        journal.begins(f"{row.key}:{mode}")
        journal.ends(f"{row.key}:{mode}", *outcome(row, mode, expected))


def outcome(row: Case, mode: str, expected: Values) -> tuple[Verdict, str]:
    """Run a case on tpu in `mode`. Return its verdict, and the cause, which is "" if it passed."""
    graphs = _compiled_graphs()
    try:
        actual = values(row, mode)
    except Exception as error:  # noqa: BLE001 - a library may raise anything
        return Verdict.FAILED, _cause(error)
    if mode == COMPILE and _compiled_graphs() == graphs:
        return Verdict.FAILED, "torch.compile compiled no graph"
    difference = compare(row, expected, actual)
    return (Verdict.DIFFERS, difference) if difference else (Verdict.PASSED, "")


def compare(row: Case, expected: Values, actual: Values) -> str:
    """Return the first difference between the CPU's and tpu's tensors, or "" if there is none."""
    if not expected:
        return "the case returns no tensor"
    if expected.keys() != actual.keys():
        return f"other results: {min(expected.keys() ^ actual.keys())}"
    for name, value in expected.items():
        try:
            torch.testing.assert_close(
                actual[name], value, rtol=row.rtol, atol=row.atol, equal_nan=True
            )
        except AssertionError as error:
            return one_line(f"{name}: {' '.join(str(error).split())}")
    return ""


def values(row: Case, mode: str) -> dict[str, torch.Tensor]:
    """Run a case in `mode` (CPU or a mode of tpu), and return CPU copies of its tensors."""
    torch.compiler.reset()
    for seed in (torch.manual_seed, random.seed, numpy.random.seed):
        seed(0)
    device = torch.device("cpu" if mode == CPU else "tpu")
    with torch.tpu.eager_mode("fused") if mode == FUSED else nullcontext():
        results = row.function(Run(device, compiles=mode == COMPILE))
        return {
            name: tensor.detach().to("cpu").to_dense().clone()
            for name, tensor in cases.tensors(results).items()
        }


def _compiled_graphs() -> int:
    """Return how many graphs Dynamo has passed to a backend in this process."""
    count: int = counters["stats"]["unique_graphs"]
    return count


def _cause(error: BaseException) -> str:
    traceback.print_exception(error)
    sys.stderr.flush()
    return one_line(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
