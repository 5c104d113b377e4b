# SPDX-License-Identifier: Apache-2.0
"""Test that the outcomes of selected cases match the golden files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.aot import golden, subjects
from tests.aot.collecting import collect
from tests.aot.compiling import STEP_SECONDS, compile_programs
from tests.aot.rows import judge
from tests.aot.store import Store

UPDATE = "Fix it. If the change is intended, ./bazelw run //tests/aot:run -- --work ... --update"

# One operator from each family, and the operators that a TPU computes differently from the CPU.
OPERATORS = [
    "add",
    "cumsum",
    "gather",
    "index_put",
    "sort",
    "topk",
    "scatter_reduce.mean",
    "normal",
    "nn.functional.scaled_dot_product_attention",
    "nn.functional.conv2d",
    "nn.functional.batch_norm",
    "nn.functional.max_pool2d",
    "nn.functional.cross_entropy",
    "fft.fft",
    "matrix_exp",
    "pinverse",
    "linalg.svd",
    "linalg.lstsq",
    "linalg.eig",
    "linalg.inv",
]
PRODUCTS = ["mm", "bmm", "matmul", "addmm", "dot", "nn.functional.conv2d"]

SLICES = {
    "forward": (OPERATORS, ["float32"], ["forward"]),
    "backward": (OPERATORS[:12], ["float32"], ["backward"]),
    "products": (PRODUCTS, ["int64"], ["forward"]),
    "kernels": (["*"], ["float32", "bfloat16"], ["kernel"]),
    "digits": (["digits"], ["float32"], ["step"]),
}


@pytest.mark.parametrize("name", SLICES)
def test_outcomes_are_those_of_the_golden(name: str, tmp_path: Path) -> None:
    surprises = _surprises(*SLICES[name], tmp_path)
    assert not surprises, "\n".join([*surprises, UPDATE])


def _surprises(
    patterns: Sequence[str], dtypes: Sequence[str], checks: Sequence[str], folder: Path
) -> list[str]:
    store = Store(folder)
    collected = dict(collect(subjects.cases(patterns, dtypes, checks), store, platform="tpu"))
    assert collected
    samples = [sample for found in collected.values() for sample in found]
    digests = dict.fromkeys(
        program.digest for sample in samples for program in sample.programs if program.digest
    )
    results = compile_programs(list(digests), store, "v5e", seconds=STEP_SECONDS)
    compiled = {result.digest: result for result in results}
    known = golden.read()
    rows = [judge(case, "v5e", found, compiled) for case, found in collected.items()]
    return [text for row in rows if (text := golden.surprise(row, known))]
