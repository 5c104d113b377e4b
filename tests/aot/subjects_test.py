# SPDX-License-Identifier: Apache-2.0
"""Test which cases exist, and which samples they have."""

from __future__ import annotations

import pytest
import torch

from tests.aot import subjects
from tests.aot.rows import Case
from tests.conformance import samples


def test_cases_are_chosen_by_patterns_dtypes_and_checks() -> None:
    chosen = subjects.cases(["add"], ["float32", "bool"], ["forward"])
    assert chosen == [Case("add", "float32", "forward"), Case("add", "bool", "forward")]
    assert subjects.cases(["nn.Linear"], ["float32", "int64"], ["module"]) == [
        Case("nn.Linear", "float32", "module")
    ]
    assert Case("flash head_dim 64", "bfloat16", "kernel") in subjects.cases(
        ["*"], ["bfloat16"], ["kernel"]
    )
    assert [case.subject for case in subjects.cases(["gpt*"], ["float32"], ["step"])] == [
        "gpt head_dim 64",
        "gpt head_dim 128",
    ]
    assert Case("add", "int64", "backward") not in subjects.cases(["add"], ["int64"], ["backward"])


def test_a_pattern_without_a_subject_is_an_error() -> None:
    with pytest.raises(ValueError, match="no subject nothing in forward"):
        subjects.cases(["add", "nothing"], ["float32"], ["forward"])


def test_an_operator_has_the_samples_of_the_conformance_gate() -> None:
    operator = samples.operators()["sum"]
    picked, _ = samples.pick(operator, torch.float32, 5, few=5, gradients=False)
    calls = subjects.calls(Case("sum", "float32", "forward"), 5)
    assert [index for index, _ in calls] == [sample.index for sample in picked]
