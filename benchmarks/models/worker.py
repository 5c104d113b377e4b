# SPDX-License-Identifier: Apache-2.0
"""Run a model in one program: `python3 -m benchmarks.models.worker LIBRARY/MODEL:KIND:PROGRAM`.

Requests and answers are lines of JSON. An answer to a failed request is `{"error"}`.

The answer to `{"prepare": FILE}` is `{"cpu", "wall", "difference"}`: the CPU time (including child
processes) and wall time of the setup and the warm-up runs, which continue until they compile
nothing, and the difference from the results in FILE. The program `torch` writes FILE. The answer to
`{"measure": SECONDS}` is `{"cpu", "wall", "runs"}`: the CPU and wall time of one run, and the
number of runs. All times are in seconds.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from benchmarks.models import agreement
from benchmarks.models.model import BASE, Key, Work
from benchmarks.models.torch_program import TorchProgram
from benchmarks.models.zoo import MODELS


def main(argv: list[str]) -> int:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # The output of libraries must not mix with the answers.
    torch.set_num_threads(1)
    model, kind, program = argv[0].split(":")
    worker = _Worker(Key(model, kind, program))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "prepare" in request:
                answer = worker.prepare(Path(request["prepare"]))
            else:
                answer = worker.measure(request["measure"])
        except Exception as error:  # noqa: BLE001 - the failure of a library is a row of the table
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {_first_line(error)}"}
        print(json.dumps(answer), file=answers, flush=True)
    return 0


class _Worker:
    def __init__(self, key: Key) -> None:
        self._key = key
        self._model = MODELS[key.model]
        self._program: Any = None

    def prepare(self, file: Path) -> dict[str, Any]:
        work = build(self._key.model)
        cpu, wall = _cpu_with_children(), time.perf_counter()
        self._program = _program(self._key, work)
        results = self._program.results()
        self._program.settle()
        answer = {"cpu": _cpu_with_children() - cpu, "wall": time.perf_counter() - wall}
        if self._key.program == BASE:
            torch.save(results, file)
        return {
            **answer,
            "difference": agreement.difference(self._model, torch.load(file), results),
        }

    def measure(self, seconds: float) -> dict[str, float]:
        runs, cpu, wall = 0, time.process_time(), time.perf_counter()
        while runs == 0 or time.perf_counter() - wall < seconds:
            self._program.run()
            runs += 1
        return {
            "cpu": (time.process_time() - cpu) / runs,
            "wall": (time.perf_counter() - wall) / runs,
            "runs": runs,
        }


def build(name: str) -> Work:
    """Create a model with its inputs. The random numbers are the same in every process."""
    from tests.ecosystem import cuda_stand_in

    cuda_stand_in.load()  # Without it, PyPI's torchvision does not load.
    torch.manual_seed(0)
    work = MODELS[name].build()
    for module in work.module.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            module.p = 0.0  # Devices have different random numbers.
    return work


def _program(key: Key, work: Work) -> Any:
    if key.program == "torchax":
        from benchmarks.models.torchax_program import TorchaxProgram

        return TorchaxProgram(work, key.kind)
    return TorchProgram(key.program, work, key.kind)


def _cpu_with_children() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
