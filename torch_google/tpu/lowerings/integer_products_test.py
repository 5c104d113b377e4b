# SPDX-License-Identifier: Apache-2.0
"""int64 matmuls and convolutions on a TPU equal those on the CPU, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch

from torch_google.tpu.lowerings import convolution, integer_products, matmul
from torch_google.tpu.lowerings.against_cpu import to_array, to_tensor
from torch_google.tpu.lowerings.grouped_convolution import Window
from torch_google.tpu.lowerings.integer_products import exact_product
from torch_google.tpu.lowerings.platform_choice import NotOnTpu

INTEGERS = torch.iinfo(torch.int64)
# Values around which the digits, the 32-bit halves or the sign change.
EXTREMES = [
    *(0, 1, -1, INTEGERS.min, INTEGERS.max, INTEGERS.min + 1, INTEGERS.max - 1),
    *(s * ((1 << n) + d) for n in (7, 8, 15, 16, 31, 32, 55, 62) for d in (-1, 0, 1) for s in (1, -1)),
    *(0x7F7F7F7F7F7F7F7F, -0x7F7F7F7F7F7F7F80, 0x5555555555555555),
]  # fmt: skip


def values(*shape: int, seed: int = 0) -> torch.Tensor:
    """Return random numbers of all magnitudes, a third of which are from EXTREMES."""
    generator = torch.Generator().manual_seed(seed)
    count = math.prod(shape)
    full = torch.randint(INTEGERS.min, INTEGERS.max, (count,), generator=generator)
    full = full >> torch.randint(64, (count,), generator=generator)
    chosen = torch.randint(len(EXTREMES), (count,), generator=generator)
    extreme = torch.tensor(EXTREMES)[chosen]
    return torch.where(torch.randint(3, (count,), generator=generator) == 0, extreme, full).view(
        shape
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 5)),
        ((2, 3, 70), (2, 70, 5)),
        ((3, 300), (300,)),
        ((257,), (257,)),
        ((1, 1), (1, 1)),
        ((3, 0), (0, 5)),
        ((0, 4), (4, 5)),
    ],
)
def test_products(a: Any, b: Any, seed: int) -> None:
    left, right = values(*a, seed=seed), values(*b, seed=seed + 10)
    result = matmul.exact_matmul(to_array(left), to_array(right))
    assert result.dtype == jnp.int64
    assert torch.equal(to_tensor(result), left @ right)


def test_every_pair_of_extremes() -> None:
    extremes = torch.tensor(EXTREMES)
    result = matmul.exact_matmul(to_array(extremes[:, None]), to_array(extremes[None, :]))
    assert torch.equal(to_tensor(result), extremes[:, None] * extremes)


@pytest.mark.parametrize("value", [INTEGERS.min, INTEGERS.max, -0x7F7F7F7F7F7F7F80])
@pytest.mark.parametrize("size", [16383, 16384, 50001])
def test_sums_that_are_too_long_for_one_product_of_digits(value: int, size: int) -> None:
    a = torch.full((2, size), value)
    a[:, -1] = values(2)
    result = matmul.exact_matmul(to_array(a), to_array(a.T))
    assert torch.equal(to_tensor(result), a @ a.T)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kernel", [1, 3])
def test_convolutions(
    monkeypatch: pytest.MonkeyPatch, transposed: bool, rank: int, groups: int, kernel: int
) -> None:
    x = values(2, 4, *[7, 6, 5][:rank])
    rows = (4, 3) if transposed else (6, 4 // groups)
    weight = values(*rows, *[kernel] * rank, seed=1)
    per_axis = ([2] * rank, [1] * rank, [2] * rank)
    options = (None, *per_axis, transposed, [1 if transposed else 0] * rank, groups)
    # Call the lowering directly, and make `choose` call its TPU version.
    monkeypatch.setattr(convolution, "choose", lambda *arrays, tpu, default: tpu(*arrays))
    result = convolution.convolution(to_array(x), to_array(weight), *options)
    assert result.dtype == jnp.int64
    assert torch.equal(to_tensor(result), torch.convolution(x, weight, *options))


def test_convolutions_over_many_channels_and_positions() -> None:
    x, weight = torch.full((1, 5000, 3, 3), INTEGERS.min + 1), values(2, 5000, 3, 3)
    window = Window(stride=[1, 1], pads=[(1, 1)] * 2, spread=[1, 1], dilation=[1, 1])
    result = convolution.exact_convolution(to_array(x), to_array(weight), window, groups=1)
    expected = torch.conv2d(x, weight, padding=1).permute(0, 2, 3, 1)
    assert torch.equal(to_tensor(result), expected)


def test_a_kernel_with_too_many_positions_is_rejected() -> None:
    x, weight = jnp.ones((1, 1, 20000), jnp.int64), jnp.ones((1, 1, 16384), jnp.int64)
    message = (
        "a TPU has no convolution of int64 with 16384 positions in the kernel: up to 16383 fit"
    )
    with pytest.raises(NotOnTpu, match=message):
        on_tpu(lambda x, w: convolve(x, w), x, weight)
    on_tpu(lambda x, w: convolve(x, w), x, weight[..., 1:])


def convolve(x: jax.Array, weight: jax.Array) -> jax.Array:
    return convolution.convolution(x, weight, None, [1], [0], [1], False, [0], 1)


OPERATORS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "mm": (matmul.matmul, [(3, 4), (4, 5)]),
    "bmm": (matmul.matmul, [(2, 3, 4), (2, 4, 5)]),
    "mv": (matmul.matmul, [(3, 4), (4,)]),
    "vdot": (matmul.vdot, [(4,), (4,)]),
    "addmm": (matmul.add_product, [(3, 5), (3, 4), (4, 5)]),
    "addbmm": (matmul.addbmm, [(3, 5), (2, 3, 4), (2, 4, 5)]),
    "bilinear": (
        lambda a, w, b: matmul.trilinear(a, w, b, [1, 3], [0], [1, 2], [2, 3]),
        [(5, 3), (2, 3, 4), (5, 4)],
    ),
    "conv1d": (convolve, [(2, 4, 6), (3, 4, 3)]),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_a_program_for_a_tpu_has_products_of_int8_only(name: str) -> None:
    function, shapes = OPERATORS[name]
    arrays = [jnp.ones(shape, jnp.int64) for shape in shapes]
    lines = on_tpu(function, *arrays).splitlines()
    products = [line for line in lines if "dot_general" in line or "stablehlo.convolution" in line]
    assert bool(products) is (name != "bilinear")
    assert all("xi8>" in line and "i64>" not in line for line in products)


@pytest.mark.parametrize("name", ["addbmm", "bilinear"])
def test_other_sums_of_products(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    function, shapes = OPERATORS[name]
    arrays = [to_array(values(*shape, seed=seed)) for seed, shape in enumerate(shapes)]
    expected = function(*arrays)
    monkeypatch.setattr(matmul, "choose", lambda *arrays, tpu, default: tpu(*arrays))
    assert (function(*arrays) == expected).all()


def test_digits_add_up() -> None:
    x = torch.tensor(EXTREMES)
    digits = [to_tensor(digit).long() for digit in integer_products._digits(to_array(x))]
    assert torch.equal(sum((d << (8 * i) for i, d in enumerate(digits)), torch.zeros_like(x)), x)


def test_the_summed_axis_may_be_anywhere() -> None:
    a, b = values(70, 3), values(5, 70, seed=1)

    def product(x: jax.Array, y: jax.Array) -> jax.Array:
        return jax.lax.dot_general(x, y, (((0,), (1,)), ((), ())), preferred_element_type=jnp.int32)

    result = exact_product(product, to_array(a), to_array(b), axes=(0, 1))
    assert torch.equal(to_tensor(result), a.T @ b.T)


def on_tpu(function: Callable[..., Any], *arrays: jax.Array) -> str:
    return str(jax.jit(function).trace(*arrays).lower(lowering_platforms=("tpu",)).as_text())
