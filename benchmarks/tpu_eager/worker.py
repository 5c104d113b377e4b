# SPDX-License-Identifier: Apache-2.0
"""Run one of the compared programs: read requests for cases, and print the cost of each.

Usage: `python3 -m benchmarks.tpu_eager.worker PEER`. Requests and responses are lines of JSON. A
request is `{"case", "seconds"}`. A response is `{"error"}`, or `{"cpu", "wall", "count", "value"}`
with the CPU and wall time of one run, in seconds, and the number of runs. The value is the result
of the third run: a loss or a sum of logits.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.tpu_eager.cases import CASES, Case
from benchmarks.tpu_eager.torch_peers import SETTINGS, Torch

# The number of operators issued in a row. Fused mode records this many without running any: it
# starts to run operators only after it has recorded more.
_BURST = 48
# The number of warm-up runs. The result of the last one must be the same in all programs.
_WARM = 3


@dataclass
class _Ready:
    """A case after its warm-up, ready to measure. One call to `run` counts as `size` runs."""

    run: Callable[[], Any]
    wait: Callable[[], None]
    clock: Callable[[], float]
    size: int
    value: Any
    count: int = 1


def main(argv: list[str]) -> int:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Library output must not mix with the responses.
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    peer: Any = None
    ready: dict[str, _Ready] = {}
    for line in sys.stdin:
        request = json.loads(line)
        case = CASES[request["case"]]
        try:
            peer = peer or _peer(argv[0])
            if case.name not in ready:
                ready[case.name] = _prepare(peer, case)
            answer = _measure(ready[case.name], request["seconds"])
        except Exception as error:  # noqa: BLE001 - the report shows a failed peer as a line
            text = str(error).strip().partition("\n")[0]
            answer = {"error": f"{type(error).__name__}: {text}"}
        print(json.dumps(answer), file=answers, flush=True)
    return 0


def _peer(name: str) -> Any:
    if name == "torchax":
        from benchmarks.tpu_eager.torchax_peer import Torchax

        return Torchax()
    if name == "jax":
        from benchmarks.tpu_eager import pure_jax

        return pure_jax
    return Torch(name)


def _prepare(peer: Any, case: Case) -> _Ready:
    if case.kind in ("add", "record"):
        run, wait = peer.add()

        def burst() -> None:
            for _ in range(_BURST):
                run()

        clock = time.thread_time if case.kind == "record" else time.process_time
        ready = _Ready(burst, wait, clock, _BURST, None)
    else:
        run = getattr(peer, case.kind)(case.name)
        ready = _Ready(run, lambda: None, time.process_time, 1, None)
    for _ in range(_WARM):
        ready.value = ready.run()
        ready.wait()
    if isinstance(peer, Torch):
        peer.settle(ready.run)
    return ready


def _measure(case: _Ready, seconds: float) -> dict[str, Any]:
    """Run a case for about `seconds` seconds, and return its cost.

    The times include waiting for the results, except in a `record` case.
    """
    spent, wall, runs = 0.0, 0.0, 0
    alone = case.clock is time.thread_time
    while runs == 0 or wall < seconds:
        begin, started = case.clock(), time.perf_counter()
        for _ in range(1 if alone else case.count):
            case.run()
        if not alone:
            case.wait()
        spent += case.clock() - begin
        wall += time.perf_counter() - started
        runs += 1 if alone else case.count
        case.wait()
        case.count = max(1, round(seconds / 4 / (wall / runs)))
    each = runs * case.size
    return {"cpu": spent / each, "wall": wall / each, "count": each, "value": case.value}


if __name__ == "__main__":
    assert sys.argv[1] in {*SETTINGS, "jax", "torchax"}
    sys.exit(main(sys.argv[1:]))
