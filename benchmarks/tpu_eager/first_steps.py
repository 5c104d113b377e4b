# SPDX-License-Identifier: Apache-2.0
"""Measure a process's first two steps, with an empty and with a filled compile cache.

`python3 -m benchmarks.tpu_eager.first_steps PEER CASE` prints the CPU and wall time from the first
tensor to the end of the second step, as JSON. The process then runs until nothing is left to
compile, so its cache is as complete as that of a longer run.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

from benchmarks.tpu_eager.measure import environment, pin

# The number of processes to run with a filled cache. The median of their times is reported.
WARM_RUNS = 3


@dataclass(frozen=True)
class FirstSteps:
    """The times of the process that fills the cache (cold) and of later ones (warm), in seconds."""

    peer: str
    cold_cpu: float
    cold_wall: float
    warm_cpu: float
    warm_wall: float


def compare(peer: str, case: str, *, threads: int) -> FirstSteps:
    """Run a program once with an empty cache, then WARM_RUNS times with that cache filled."""
    cache = tempfile.mkdtemp(prefix="tpu_eager_cache_")
    try:
        cold, *again = (_run(peer, case, cache, threads) for _ in range(1 + WARM_RUNS))
    finally:
        shutil.rmtree(cache)
    warm = {kind: statistics.median(run[kind] for run in again) for kind in cold}
    return FirstSteps(peer, cold["cpu"], cold["wall"], warm["cpu"], warm["wall"])


def _run(peer: str, case: str, cache: str, threads: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.tpu_eager.first_steps", peer, case],
        env={
            **environment(threads),
            "TORCH_TPU_COMPILE_CACHE": cache,
            "TORCHINDUCTOR_CACHE_DIR": os.path.join(cache, "inductor"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: pin(threads),
        check=True,
    )
    times: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return times


def main(argv: list[str]) -> int:
    from benchmarks.tpu_eager.torch_peers import Torch

    peer, case = argv
    torch_peer = Torch(peer)
    begin, started = time.process_time(), time.perf_counter()
    step = torch_peer.train(case)
    step()
    step()
    spent = {"cpu": time.process_time() - begin, "wall": time.perf_counter() - started}
    print(json.dumps(spent), flush=True)
    torch_peer.settle(step)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
