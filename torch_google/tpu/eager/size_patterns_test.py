# SPDX-License-Identifier: Apache-2.0
"""Sizes that change are told apart from those that differ between the layers of a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_google.tpu.eager.size_patterns import CallSizes, SizeHistory, SizePattern, TensorLayout


def call(*shapes: tuple[int, ...], numbers: tuple[int, ...] = ()) -> CallSizes:
    """Return the sizes of a call with contiguous tensors, each in its own storage."""
    values = [size for shape in shapes for size in shape]
    owners = [index for index, shape in enumerate(shapes) for _ in shape]
    return CallSizes(
        (*values, *numbers),
        (*owners, *[-1] * len(numbers)),
        tuple(TensorLayout(shape, 0, shape) for shape in shapes),
        (False,) * len(shapes),
    )


def last(calls: list[list[CallSizes]]) -> SizePattern | None:
    """Note the calls of several rounds, and return the pattern of the last call."""
    history = SizeHistory()
    found = None
    for number, several in enumerate(calls):
        for each in several:
            found = history.pattern(each, number)
    return found


def test_a_size_that_changes_in_five_rounds_is_a_symbol() -> None:
    rounds = [[call((2, length, 16), (16, 16))] for length in (5, 7, 9, 11, 9)]
    assert last(rounds[:4]) is None
    pattern = last(rounds)
    assert pattern is not None
    assert pattern.symbols == (((1, 1),),)
    assert pattern.tensors == {0}
    assert pattern.symbol_values(rounds[-1][0]) == (9,)


def test_layers_of_a_model_are_no_changing_sizes() -> None:
    layers = [call((8, width), (width, 64)) for width in (16, 32, 48, 64, 80)]
    assert last([layers]) is None
    assert last([layers, layers, layers, layers, [call((4, 24), (24, 24))]]) is None


def test_each_layer_is_compared_with_itself() -> None:
    def layers(length: int) -> list[CallSizes]:
        return [call((length, width), (width, 64)) for width in (16, 32, 48)]

    pattern = last([layers(length) for length in range(10, 15)])
    assert pattern is not None
    assert pattern.symbols == (((0, 1),),)
    assert dict(pattern.static) == {1: 48, 2: 48, 3: 64}


def test_sizes_that_change_together_are_one_symbol() -> None:
    rounds = [[call((2, n, n), (2 * n, 4), numbers=(3 * n,))] for n in (5, 7, 9, 11, 13)]
    pattern = last(rounds)
    assert pattern is not None
    assert pattern.symbols == (((1, 1), (2, 1), (3, 2), (5, 3)),)


def test_two_sizes_may_change() -> None:
    pattern = last([[call((a, b))] for a, b in ((5, 11), (6, 13), (9, 14), (4, 15), (7, 16))])
    assert pattern is not None
    assert pattern.symbols == (((0, 1),), ((1, 1),))


@pytest.mark.parametrize("lengths", [(1, 2, 3, 4, 5), (5, 1, 0, 1, 0), (3, 3, 3, 3, 3)])
def test_no_pattern(lengths: tuple[int, ...]) -> None:
    """Sizes 0 and 1 are never symbols, and a repeated call needs no pattern."""
    assert last([[call((length, 4))] for length in lengths]) is None


def test_a_storage_that_keeps_its_size_is_told_from_one_that_changes() -> None:
    def prefix(length: int) -> CallSizes:
        return CallSizes((length,), (0,), (TensorLayout((1,), 0, (64,)),), (False,))

    fixed = last([[prefix(length)] for length in (5, 7, 9, 11, 13)])
    changing = last([[call((length,))] for length in (5, 7, 9, 11, 13)])
    assert fixed is not None
    assert changing is not None
    assert not fixed.storage_changes(0)
    assert changing.storage_changes(0)


def test_a_view_that_moves_has_no_pattern() -> None:
    rounds = [
        [CallSizes((3,), (0,), (TensorLayout((1,), offset, (64,)),), (False,))]
        for offset in (5, 7, 9, 11, 13)
    ]
    assert last(rounds) is None


def test_a_storage_that_changes_under_a_fixed_size_is_a_pattern() -> None:
    rounds = [
        [CallSizes((3,), (0,), (TensorLayout((1,), length - 3, (length,)),), (False,))]
        for length in (5, 7, 9, 11, 13)
    ]
    pattern = last(rounds)
    assert pattern is not None
    assert pattern.symbols == ()
    assert pattern.tensors == {0}


_SHAPES = st.lists(st.integers(2, 6), min_size=1, max_size=3).map(tuple)


@given(st.lists(st.tuples(_SHAPES, _SHAPES), min_size=5, max_size=12))
def test_a_pattern_fits_its_call(shapes: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
    """All sizes follow from the symbols' values, and every symbol has one value."""
    ranks = tuple(map(len, shapes[0]))
    history = SizeHistory()
    for number, (first, second) in enumerate(shapes):
        if (len(first), len(second)) != ranks:
            continue
        sizes = call(first, second)
        pattern = history.pattern(sizes, number)
        if pattern is None:
            continue
        assert pattern.matches(sizes)
        rebuilt = dict(pattern.static)
        for symbol, value in zip(pattern.symbols, pattern.symbol_values(sizes), strict=True):
            assert value >= 2
            rebuilt |= {position: factor * value for position, factor in symbol}
        assert tuple(rebuilt[position] for position in range(len(sizes.values))) == sizes.values
