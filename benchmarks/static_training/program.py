# SPDX-License-Identifier: Apache-2.0
"""Perform a training run, and print its CPU and wall time and torch's build settings as JSON.

Usage: `program.py CASE --threads N`. In a PAR, `program.py data` prints the packed digits dataset
instead.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import pathlib
import re
import sys
from typing import Any

import torch

from benchmarks.static_training.cases import CASES
from benchmarks.static_training.trainings import TRAININGS
from examples import digits


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    if options.case == "data":
        sys.stdout.buffer.write(digits.packed().read_bytes())
        return 0
    with _onednn(not options.without_onednn):
        count = options.count or CASES[options.case].count
        cost = TRAININGS[options.case](count, threads=options.threads, data=options.data)
    onednn = torch.backends.mkldnn.is_available() and not options.without_onednn
    print(json.dumps({**dataclasses.asdict(cost), "made_of": made_of(onednn=onednn)}))
    return 0


def made_of(*, onednn: bool) -> dict[str, Any]:
    """Return the build settings that affect torch's speed.

    torch.__config__.show() is not among them, because it contains paths of the machine that
    compiled torch, which published results must not contain.
    """
    blas = re.search(r"\bBLAS_INFO=(\w+)", torch.__config__.show())
    threads = re.search(r"parallel backend: (.+)", torch.__config__.parallel_info())
    return {
        "version": torch.__version__,
        "blas": blas[1] if blas else "not said",
        "onednn": onednn,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads_by": threads[1].strip() if threads else "not said",
    }


def _onednn(enabled: bool) -> contextlib.AbstractContextManager[None]:
    if enabled:
        return contextlib.nullcontext()
    off: contextlib.AbstractContextManager[None] = torch.backends.mkldnn.flags(enabled=False)
    return off


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=[*CASES, "data"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data", type=pathlib.Path, help="the digits, if not run from a PAR")
    parser.add_argument("--count", type=int, help="number of epochs or steps to measure")
    parser.add_argument("--without-onednn", action="store_true", help="disable oneDNN")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
