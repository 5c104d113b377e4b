# SPDX-License-Identifier: Apache-2.0
"""Search for programs that crash, hang, or give different results on tpu and the CPU.

Usage: `python -m tests.fuzz.run --seeds 0:500`.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Sequence
from functools import partial

from absl import app, flags

from tests.fuzz.worker import Job, Worker
from torch_google.tpu.testing.quick_compiler import XLA_FLAGS

_SEEDS = flags.DEFINE_string("seeds", "0:100", "FIRST:END: the seeds from FIRST to END - 1.")
_MODES = flags.DEFINE_list("modes", ["strict", "fused", "debug"], "Eager modes to test.")
_MINUTES = flags.DEFINE_float("minutes", 0.0, "Stop after this many minutes; 0: after all seeds.")
_LIMIT = flags.DEFINE_float("limit", 10.0, "Minutes after which a program counts as a hang.")
_SHRINK = flags.DEFINE_bool("shrink", True, "Minimize programs that differ before printing them.")


def main(argv: list[str]) -> int:
    """Run the programs for the given seeds; return 1 if there is any finding, else 0."""
    if len(argv) > 1:
        raise app.UsageError(f"found the argument {argv[1]!r}, expected flags only")
    begin, _, end = _SEEDS.value.partition(":")
    prepare = partial(_prepare, tuple(_MODES.value), shrink=_SHRINK.value)
    worker = Worker(prepare, seconds=60 * _LIMIT.value)
    start, findings, count = time.monotonic(), 0, 0
    for seed in range(int(begin), int(end)):
        if _MINUTES.value and time.monotonic() - start > 60 * _MINUTES.value:
            break
        count += 1
        for finding in worker.findings(seed):
            findings += 1
            print(finding, flush=True)
        if count % 20 == 0:
            seconds = time.monotonic() - start
            print(
                f"{count} programs, {findings} findings, {seconds:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    worker.close()
    print(f"{count} programs in {','.join(_MODES.value)}: {findings} findings")
    return 1 if findings else 0


def _prepare(modes: Sequence[str], *, shrink: bool) -> Job:
    os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)
    os.environ.setdefault("TORCH_TPU_PLATFORM", "cpu")
    os.environ.setdefault("TORCH_TPU_CPU_KERNELS", "0")  # run programs, as on a TPU
    from tests.fuzz.check import check  # Import late, because only the worker may import torch.

    warnings.simplefilter("ignore")
    return lambda seed: map(str, check(seed, modes, shrink=shrink))


if __name__ == "__main__":
    app.run(main)
