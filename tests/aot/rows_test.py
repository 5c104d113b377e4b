# SPDX-License-Identifier: Apache-2.0
"""Test that the outcome of a case follows from the outcomes of its programs."""

from __future__ import annotations

import pytest

from tests.aot.rows import Case, Compilation, Outcome, Program, Sample, judge

CASE = Case("add", "float32", "forward")
GOOD = Program("aten::add", digest="good")
REFUSED = Program("aten::eig", refusal="a TPU has no aten::eig")
COMPILED = {
    "good": Compilation("good", Outcome.COMPILED),
    "dead": Compilation("dead", Outcome.ABORTED, message="the process ended with SIGABRT"),
    "bad": Compilation("bad", Outcome.FAILED, message="not implemented"),
}


def test_all_samples_that_compile_are_counted() -> None:
    row = judge(CASE, "v5e", [Sample(0, (GOOD,)), Sample(3, ())], COMPILED)
    assert (row.outcome, row.compiled, row.samples) == (Outcome.COMPILED, 2, 2)
    assert row.good
    assert row.first is None


def test_the_first_failure_counts_and_of_a_sample_the_worst() -> None:
    samples = [
        Sample(0, (GOOD,)),
        Sample(4, (Program("aten::svd", digest="dead"), REFUSED)),
        Sample(7, (Program("aten::mm", digest="bad"),)),
    ]
    row = judge(CASE, "v5e", samples, COMPILED)
    assert (row.outcome, row.compiled, row.samples, row.first) == (Outcome.ABORTED, 1, 3, 4)
    assert row.message == "aten::svd: the process ended with SIGABRT"


def test_a_call_that_fails_here_does_not_count() -> None:
    row = judge(CASE, "v5e", [Sample(0, (GOOD,), "RuntimeError: no")], COMPILED)
    assert row.outcome is Outcome.EMPTY
    assert not row.counts
    row = judge(CASE, "v5e", [Sample(0, (GOOD,), "RuntimeError: no"), Sample(1, ())], COMPILED)
    assert (row.outcome, row.samples) == (Outcome.COMPILED, 1)


def test_a_refusal_counts_although_the_call_fails_here() -> None:
    row = judge(CASE, "v5e", [Sample(0, (REFUSED,), "RuntimeError: no")], COMPILED)
    assert (row.outcome, row.message) == (Outcome.REFUSED, "a TPU has no aten::eig")


def test_a_program_without_an_outcome_is_an_error() -> None:
    with pytest.raises(KeyError, match="other"):
        judge(CASE, "v5e", [Sample(0, (Program("x", digest="other"),))], COMPILED)
