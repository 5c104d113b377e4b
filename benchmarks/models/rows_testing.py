# SPDX-License-Identifier: Apache-2.0
"""Sample rows of results, for tests."""

from __future__ import annotations

from benchmarks.models.row import Row, Verdict


def passed(model: str, program: str, ratio: float, kind: str = "infer") -> Row:
    return Row(
        model=model,
        kind=kind,
        program=program,
        verdict=Verdict.PASSED,
        ratio=ratio,
        cpu_seconds=ratio / 100,
        wall_seconds=ratio / 100,
        start_cpu=3.0,
        start_wall=4.0,
        rounds=5,
        load=1.5,
    )


def failed(model: str, program: str, kind: str = "infer") -> Row:
    return Row(
        model=model, kind=kind, program=program, verdict=Verdict.FAILED, cause="ValueError: a|b"
    )


ROWS = (
    passed("torch/a", "torch", 1.0),
    passed("torch/a", "strict", 0.5),
    passed("torch/a", "fused", 0.25),
    passed("torch/b", "torch", 1.0),
    passed("torch/b", "strict", 2.0),
    failed("torch/b", "fused"),
    passed("torch/a", "fused", 3.0, "train"),
)
