# SPDX-License-Identifier: Apache-2.0
"""Test the generator, the comparison and the minimizer, using only the CPU."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import generate as generate_module
from tests.fuzz.compare import difference
from tests.fuzz.generate import add_line, generate, grow
from tests.fuzz.minimize import minimize
from tests.fuzz.operators import FAMILIES
from tests.fuzz.program import Program, run
from tests.fuzz.state import State
from tests.fuzz.template import Operator
from tools.par.testing.budget import examples

_SEEDS = range(300, 340)


@pytest.mark.parametrize("seed", list(_SEEDS)[:5])
def test_a_seed_has_one_program(seed: int) -> None:
    assert generate(seed) == generate(seed)


@pytest.mark.full
def test_programs_have_some_length_and_most_lines_run() -> None:
    programs = [generate(seed) for seed in _SEEDS]
    assert all(15 <= len(program.lines) <= 130 for program in programs)
    errors = [error for program in programs for error in run(program, "cpu").errors]
    assert 0 < sum(map(bool, errors)) < len(errors) / 4


@pytest.mark.full
def test_the_cpu_agrees_with_itself() -> None:
    for seed in _SEEDS:
        program = generate(seed)
        assert difference(program, run(program, "cpu"), run(program, "cpu")) == ""


@pytest.mark.full
def test_every_row_makes_a_line_that_the_cpu_computes_or_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(generate_module, "_WILD", 0.0)
    states = [grow(seed) for seed in range(12)]
    tries = [*states] * 40
    idle = [
        operator.template
        for _, family in FAMILIES
        for operator in family
        if not any(_makes_a_line(state, operator) for state in tries)
    ]
    assert not idle


def _makes_a_line(grown: State, operator: Operator) -> bool:
    state = copy.copy(grown)
    state.lines, state.names, state.exact = [*grown.lines], {**grown.names}, {*grown.exact}
    before = len(state.lines)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        accepted = add_line(state, operator)
    return len(state.lines) > before and (accepted or operator.refused)


_PLANTED = [
    ("t2 = t1 + 1", "t2 = t1 + 2", "t2: "),
    ("t2 = t1.T", "t2 = t1.T.contiguous()", "t2: stride"),
    ("t2 = t1 > 0", "t2 = (t1 > 0).to(torch.uint8)", "t2: torch.bool"),
    ("t2 = t1[1:]", "t2 = t1[1:].clone()", "t2: offset"),
    ("t1.mul_(2)", "t1.mul_(2 + 1e-3)", "t1: "),
    ("t2 = t1 @ t1", "raise ValueError", "line 2: "),
    ("t2 = t1.detach()", "t2 = t1.requires_grad_()", "t1: requires_grad"),
]


@pytest.mark.parametrize(("line", "other", "prefix"), _PLANTED)
def test_a_planted_difference_is_found_and_made_small(line: str, other: str, prefix: str) -> None:
    before = ["t1 = values((3, 2), torch.float32, 7)", "t9 = t1.clone()"]
    after = [f"t{n} = t9 * {n}" for n in range(10, 40)]
    program = Program((*before, line, *after), frozenset({"t1", "t2", "t9"}))

    def differs(candidate: Program) -> str:
        lines = tuple(other if each == line else each for each in candidate.lines)
        return difference(
            candidate, run(candidate, "cpu"), run(replace(candidate, lines=lines), "cpu")
        )

    assert differs(program).startswith(prefix)
    small = minimize(program, lambda candidate: bool(differs(candidate)))
    assert line in small.lines
    assert len(small.lines) <= 2


@settings(max_examples=examples(200), deadline=None)
@given(st.sets(st.integers(0, 40), min_size=1, max_size=4), st.integers(41, 60))
def test_minimize_keeps_what_is_needed_and_no_more(needed: set[int], size: int) -> None:
    program = Program(tuple(map(str, range(size))), frozenset())
    small = minimize(program, lambda p: {str(n) for n in needed} <= set(p.lines))
    assert small.lines == tuple(str(n) for n in sorted(needed))


def test_an_index_out_of_range_is_one_of_two_errors() -> None:
    lines = [f"raise {error}" for error in ("RuntimeError", "IndexError", "ValueError")]
    actual, expected, other = (run(Program((line,), frozenset()), "cpu") for line in lines)
    by_value = Program((lines[0],), frozenset(), frozenset({lines[0]}))
    assert difference(by_value, expected, actual) == ""
    assert difference(by_value, expected, other).startswith("line 0: ")
    assert difference(replace(by_value, by_value=frozenset()), expected, actual).startswith(
        "line 0: "
    )


def test_no_line_makes_a_dtype_that_the_device_lacks() -> None:
    state = State(0)
    assert state.add("t1 = values((2,), torch.float16, 1)", reads=())
    assert not state.add("t2 = t1 * 1j", reads=("t1",))
    assert [*state.tensors()] == ["t1"]
    assert len(state.lines) == 1


def test_what_a_refused_line_has_not_written_is_not_observed() -> None:
    line = "t2 = torch.empty(0, dtype=torch.bool); torch.gt(t1, 0, out=t2)"
    for by_value in (False, True):
        state = State(0)
        state.add("t1 = values((3,), torch.complex64, 1)", reads=())
        if by_value:
            assert state.add_if_refused(line)
        else:
            assert not state.add(line, reads=("t1",), refused=True)
        assert state.lines[1:] == [line, "del t2"]
        assert [*state.tensors()] == [*run(state.program(), "cpu").tensors] == ["t1"]


def test_rounded_values_have_a_tolerance_and_exact_ones_none() -> None:
    line, other = "t1 = torch.full((3,), 1.0)", "t1 = torch.full((3,), 1.0001)"
    outcomes = [run(Program((text,), frozenset()), "cpu") for text in (line, other)]
    assert difference(Program((line,), frozenset()), *outcomes) == ""
    assert difference(Program((line,), frozenset({"t1"})), *outcomes).startswith("t1: ")
    assert torch.equal(outcomes[0].tensors["t1"].values, torch.ones(3))


@pytest.mark.parametrize(("dtype", "differs"), [("bfloat16", False), ("float32", True)])
def test_a_cast_keeps_the_tolerance_of_the_less_precise_dtype(dtype: str, differs: bool) -> None:
    cast = "t2 = t1.to(torch.float32)"
    programs = [
        Program((f"t1 = torch.full((3,), {value}, dtype=torch.{dtype})", cast), frozenset())
        for value in (1.0, 1.0078125)
    ]
    outcomes = [run(program, "cpu") for program in programs]
    assert bool(difference(programs[0], *outcomes)) == differs
