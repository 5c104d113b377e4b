# SPDX-License-Identifier: Apache-2.0
"""Compare lowerings with the CPU on torch's own samples.

    python -m tests.conformance.run --ops add,mul --dtype float32 --samples 5

Operators are named as in torch's op_db (`linalg.svd`, `nn.functional.conv2d`, `div.floor_rounding`);
`fft.*` stands for all that begin so. Exit status 0: every outcome is as exceptions.json has it.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import jax
import torch

from tests.conformance import page
from tests.conformance.exceptions import load
from tests.conformance.trial import Outcome, Trial, attempt, operators

_DTYPES = ("float32", "float64", "bfloat16", "int64", "bool", "complex64")


def main(argv: Sequence[str]) -> int:
    options = _parse(argv)
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "highest")
    if options.cache:
        jax.config.update("jax_compilation_cache_dir", str(options.cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    table = operators()
    patterns = options.ops.split(",")
    names = [n for n in table if any(fnmatch.fnmatchcase(n, p) for p in patterns)]
    unknown = [p for p in patterns if not any(fnmatch.fnmatchcase(n, p) for n in table)]
    if unknown:
        print(f"run: no operator {', '.join(unknown)} in op_db. See --list", file=sys.stderr)
        return 1
    if options.list:
        print("\n".join(names))
        return 0
    trials = []
    for name in names:
        for dtype in (getattr(torch, d) for d in options.dtype.split(",")):
            if dtype in table[name].dtypes:
                trial = attempt(
                    table[name], dtype, samples=options.samples, seconds=options.seconds
                )
                trials.append(trial)
                if trial.outcome is not Outcome.PASSED or options.verbose:
                    print(page.line(trial), flush=True)
    print(page.summary(trials))
    if options.json:
        page.write_json(options.json, trials)
    if options.page:
        page.write_page(options.page, trials, load())
    return 0 if not _surprises(trials) else 1


def _surprises(trials: Sequence[Trial]) -> bool:
    known = load()
    found = [trial for trial in trials if known.surprise(trial)]
    for trial in found:
        print(f"run: {known.surprise(trial)}", file=sys.stderr)
    return bool(found)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run", description=__doc__.splitlines()[0])
    parser.add_argument("--ops", default="*", help="names or patterns, with commas; default: all")
    parser.add_argument("--dtype", default=",".join(_DTYPES), help="dtypes, with commas")
    parser.add_argument("--samples", type=int, default=5, help="for each operator and dtype")
    parser.add_argument("--seconds", type=int, default=30, help="for each sample")
    parser.add_argument("--json", type=Path, help="write every outcome to this file")
    parser.add_argument("--page", type=Path, help="write the table for people to this file")
    parser.add_argument("--cache", type=Path, help="a folder for compiled programs")
    parser.add_argument("--verbose", action="store_true", help="show also what passed")
    parser.add_argument("--list", action="store_true", help="show the names of --ops only")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
