# SPDX-License-Identifier: Apache-2.0
"""Search for programs whose results differ between tpu and the CPU.

Usage: `python -m tests.fuzz.run --seeds 0:500`.
"""

from __future__ import annotations

import os
import sys
import time
import warnings

from absl import app, flags

from torch_google.tpu.testing.quick_compiler import XLA_FLAGS

_SEEDS = flags.DEFINE_string("seeds", "0:100", "First and last seed, FIRST:END.")
_MODES = flags.DEFINE_list("modes", ["strict", "fused", "debug"], "Eager modes to test.")
_MINUTES = flags.DEFINE_float("minutes", 0.0, "Stop after this many minutes; 0: after all seeds.")
_SHRINK = flags.DEFINE_bool("shrink", True, "Minimise programs that differ before printing them.")


def main(argv: list[str]) -> int:
    """Run the programs for the given seeds; return 1 if a program differs."""
    if len(argv) > 1:
        raise app.UsageError(f"found the argument {argv[1]!r}, expected flags only")
    os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)
    os.environ.setdefault("TORCH_TPU_PLATFORM", "cpu")
    from tests.fuzz.check import check  # takes long, because it imports torch and JAX

    warnings.simplefilter("ignore")
    begin, _, end = _SEEDS.value.partition(":")
    start, findings, count = time.monotonic(), 0, 0
    for seed in range(int(begin), int(end)):
        if _MINUTES.value and time.monotonic() - start > 60 * _MINUTES.value:
            break
        count += 1
        for finding in check(seed, _MODES.value, shrink=_SHRINK.value):
            findings += 1
            print(finding, flush=True)
        if count % 20 == 0:
            seconds = time.monotonic() - start
            print(
                f"{count} programs, {findings} findings, {seconds:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    print(f"{count} programs in {','.join(_MODES.value)}: {findings} differ from the CPU")
    return 1 if findings else 0


if __name__ == "__main__":
    app.run(main)
