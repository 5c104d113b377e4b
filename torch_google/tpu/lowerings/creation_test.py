# SPDX-License-Identifier: Apache-2.0

from typing import Any

import jax
import pytest
import torch

from torch_google.tpu.lowerings import creation
from torch_google.tpu.lowerings.against_cpu import check

aten = torch.ops.aten
FIFTY = torch.tensor(50)


def test_filled() -> None:
    check(aten.full.default, [2, 3], 1.5)
    check(aten.full.default, [], True)
    check(aten.full.default, [2], -1, dtype=torch.uint8)
    check(aten.full.default, [2], 1 + 2j)
    check(aten.full_like.default, torch.zeros(2, dtype=torch.int8), 3.7)
    check(aten.full_like.default, torch.zeros(2), float("nan"))
    check(aten.new_full.default, torch.zeros(2), [3], 4, dtype=torch.int64)
    check(aten.ones.default, [2, 0])
    check(aten.zeros_like.default, torch.ones(3), dtype=torch.bool)
    check(aten.ones_like.default, torch.zeros(3, dtype=torch.bfloat16))
    check(aten.scalar_tensor.default, 3, dtype=torch.int32)
    check(aten.eye.m, 3, 4)
    check(aten.eye.default, 2, dtype=torch.bool)


RANGES = [(0, 5, 1), (5, 0, -2), (0, 1, 0.1), (1, 2.5, 0.5), (0, 0, 1), (-3, 3, 2)]


@pytest.mark.parametrize("ends", RANGES)
def test_arange(ends: tuple[float, float, float]) -> None:
    check(aten.arange.start_step, *ends)
    check(aten.arange.start_step, *ends, dtype=torch.float64)
    check(aten.arange.start_step, *ends, dtype=torch.bfloat16)
    if isinstance(ends[2], int):
        check(aten.arange.start_step, *ends, dtype=torch.int32)


def test_exact_arange() -> None:
    check(aten.arange.start_step, 2**53, 2**53 + 3, 1)
    check(aten.arange.default, 7)
    check(aten.arange.start, 2, 7.5)


@pytest.mark.parametrize("steps", [0, 1, 2, 5, 50])
def test_spaced(steps: int) -> None:
    check(aten.linspace.default, -1, 2.5, steps)
    check(aten.linspace.default, -10, 10, steps, dtype=torch.int64)
    check(aten.linspace.Tensor_Tensor, FIFTY, torch.tensor(1), steps, dtype=torch.int64)
    check(aten.linspace.default, 0, 1 + 2j, steps)
    check(aten.linspace.Tensor_Tensor, torch.tensor(1.0), torch.tensor(3), steps)
    check(aten.logspace.default, -1, 2, steps, 2.0)
    check(aten.logspace.default, 0, 1, steps, dtype=torch.float64)


def complex_spaces(steps: int) -> list[tuple[Any, tuple[Any, ...]]]:
    return [
        (aten.linspace.default, (0, 1 + 2j, steps)),
        (aten.linspace.default, (-1 - 1j, 3.5, steps)),
        (aten.linspace.Tensor_Tensor, (torch.tensor(1j), torch.tensor(2.0), steps)),
        (aten.logspace.default, (0, 1 + 2j, steps, 2.0)),
        (aten.logspace.default, (-1j, 2, steps, -3.0)),
    ]


@pytest.mark.parametrize("steps", [0, 1, 2, 5, 50])
def test_complex_spaces_without_complex128_are_those_of_the_cpu(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creation, "choose", lambda *ends, tpu, default: tpu(*ends))
    for op, args in complex_spaces(steps):
        check(op, *args, dtype=torch.complex64, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("steps", [1, 5])
def test_a_program_for_a_tpu_converts_no_float64_to_complex128(steps: int) -> None:
    def program(start: jax.Array, end: jax.Array, base: jax.Array) -> list[jax.Array]:
        return [
            space(first, end, steps, *others, dtype=torch.complex64)
            for space, others in ((creation.linspace, ()), (creation.logspace, (base,)))
            for first in (start, 1 + 2j)
        ]

    inputs = [jax.ShapeDtypeStruct((), dtype) for dtype in ("float64", "int64", "float64")]
    traced = jax.jit(program).trace(*inputs)
    assert "complex<f64>" in traced.lower(lowering_platforms=("cpu",)).as_text()
    assert "complex<f64>" not in traced.lower(lowering_platforms=("tpu",)).as_text()


@pytest.mark.parametrize("offset", [-2, 0, 1, 5])
def test_triangles(offset: int) -> None:
    check(aten.tril_indices.default, 3, 4, offset)
    check(aten.triu_indices.default, 4, 2, offset, dtype=torch.int32)


@pytest.mark.parametrize("length", [0, 1, 2, 7, 20])
def test_kaiser_windows(length: int) -> None:
    check(aten.kaiser_window.default, length)
    check(aten.kaiser_window.periodic, length, False)
    check(aten.kaiser_window.beta, length, True, 90.0, dtype=torch.float64)
    check(aten.kaiser_window.beta, length, False, 0.0)


def test_one_step_of_logspace_takes_the_start_as_it_is() -> None:
    check(aten.logspace.default, 4.3, 0, 1, dtype=torch.bfloat16, rtol=2**-8, atol=0)
