# SPDX-License-Identifier: Apache-2.0
"""Test that the results of an interrupted run survive in the store."""

from __future__ import annotations

from pathlib import Path

from tests.aot.rows import Case, Compilation, Outcome, Program, Sample
from tests.aot.store import Store


def test_programs_that_differ_in_the_name_are_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    digest = store.put("module @jit_add attributes {} {\n}")
    assert store.put("module @jit_sub attributes {} {\n}") == digest
    assert store.put("module @jit_add attributes {} {\n\n}") != digest
    assert store.program(digest).read_text() == "module @program attributes {} {\n}"


def test_cases_and_outcomes_come_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "new")
    assert store.cases() == {}
    assert store.compilations("v5e") == {}
    case = Case("add", "float32", "forward")
    samples = [Sample(2, (Program("a", digest="d"), Program("b", refusal="no")), "error")]
    store.add_case(case, [])
    store.add_case(case, samples)
    assert Store(tmp_path / "new").cases() == {case: samples}
    result = Compilation("d", Outcome.SLOW, 1.5, "more than 120 s")
    store.add_compilation("v5e", result)
    assert store.compilations("v5e") == {"d": result}
    assert store.compilations("v6e") == {}
