# SPDX-License-Identifier: Apache-2.0

import itertools

import jax
import jax.numpy as jnp
import pytest
import torch

from torch_google.tpu.lowerings.against_cpu import to_array, to_tensor
from torch_google.tpu.lowerings.promotion import convert, is_number, result_type

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int64,
    torch.bfloat16,
    torch.float16,
    torch.float32,
    torch.float64,
    torch.complex64,
]
NUMBERS = [True, 2, 2.5, 1j]


@pytest.mark.parametrize("first", DTYPES, ids=str)
def test_two_tensors_combine_as_in_torch(first: torch.dtype) -> None:
    for second, left, right in itertools.product(DTYPES, ([], [2]), ([], [2])):
        x, y = torch.ones(left, dtype=first), torch.ones(right, dtype=second)
        assert result_type(to_array(x), to_array(y)) == torch.result_type(x, y), (x, y)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_counts_by_its_category(dtype: torch.dtype, number: complex) -> None:
    for shape in ([], [2]):
        x = torch.ones(shape, dtype=dtype)
        want = torch.result_type(x, number)
        assert result_type(to_array(x), number) == want
        assert result_type(number, to_array(x)) == want


def test_a_traced_number_is_a_number() -> None:
    results = []

    def function(x: jax.Array, number: jax.Array) -> jax.Array:
        results.append((is_number(x), is_number(number), result_type(x, number)))
        return x

    jax.jit(function)(jnp.ones((), jnp.float16), 2.5)
    jax.jit(function)(jnp.ones((2,), jnp.int8), 3)
    assert results == [(False, True, torch.float16), (False, True, torch.int8)]


@pytest.mark.parametrize("number", [300, -1, 2**63 - 1, -(2**40) - 7])
def test_integers_wrap(number: int) -> None:
    for dtype in (torch.uint8, torch.int8, torch.int32, torch.int64):
        want = torch.tensor(number).to(dtype)
        assert torch.equal(to_tensor(convert(number, dtype)), want)
        assert torch.equal(to_tensor(convert(jnp.asarray(number), dtype)), want)
