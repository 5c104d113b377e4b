# SPDX-License-Identifier: Apache-2.0

from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch

from torch_google.tpu.lowerings.against_cpu import check, to_array, to_tensor
from torch_google.tpu.lowerings.convolution import convolution, convolution_backward

aten = torch.ops.aten


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> Any:
    return torch.randn(shape, dtype=torch.float64).to(dtype)


# Each case is (input, weight, stride, padding, dilation, transposed, output padding, groups).
CASES: dict[str, Any] = {
    "1d": ((2, 4, 9), (6, 4, 3), [2], [1], [1], False, [0], 1),
    "1d one number for both axes": ((1, 2, 8, 9), (3, 2, 3, 2), [2], [1], [1], False, [0], 1),
    "2d odd strides and paddings": (
        (2, 3, 7, 8),
        (4, 3, 3, 2),
        [2, 3],
        [2, 1],
        [1, 2],
        False,
        [0, 0],
        1,
    ),
    "2d groups": ((2, 4, 7, 7), (6, 2, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 2),
    "2d depthwise": ((2, 4, 7, 7), (8, 1, 3, 3), [1, 2], [1, 1], [1, 1], False, [0, 0], 4),
    "2d depthwise, one result per channel": (
        (2, 5, 7, 8),
        (5, 1, 3, 2),
        [2, 1],
        [1, 2],
        [1, 2],
        False,
        [0, 0],
        5,
    ),
    "1d depthwise, padding": ((3, 4, 9), (4, 1, 5), [3], [4], [1], False, [0], 4),
    "3d depthwise": (
        (1, 3, 4, 5, 6),
        (6, 1, 2, 1, 3),
        [1, 2, 1],
        [1, 0, 1],
        [1, 1, 2],
        False,
        [0] * 3,
        3,
    ),
    "1d depthwise, many taps": ((2, 3, 90), (3, 1, 70), [1], [3], [1], False, [0], 3),
    "2d groups, stride": (
        (2, 6, 9, 8),
        (9, 2, 3, 3),
        [2, 3],
        [1, 2],
        [2, 1],
        False,
        [0, 0],
        3,
    ),
    "2d groups, 1x1": ((2, 6, 4, 3), (4, 3, 1, 1), [1, 2], [0, 1], [1, 1], False, [0, 0], 2),
    "transposed 2d depthwise": (
        (2, 4, 5, 6),
        (4, 1, 3, 2),
        [2, 3],
        [1, 0],
        [1, 2],
        True,
        [1, 2],
        4,
    ),
    "transposed 1d depthwise, two results per channel": (
        (2, 3, 6),
        (3, 2, 4),
        [2],
        [1],
        [1],
        True,
        [0],
        3,
    ),
    "transposed 2d depthwise, more padding than reach": (
        (1, 3, 7, 6),
        (3, 1, 2, 2),
        [2, 2],
        [2, 2],
        [1, 1],
        True,
        [0, 0],
        3,
    ),
    "transposed 2d depthwise, more output padding than stride": (
        (2, 4, 5, 6),
        (4, 1, 3, 2),
        [1, 2],
        [1, 0],
        [2, 4],
        True,
        [1, 3],
        4,
    ),
    "transposed 2d groups, more output padding than stride": (
        (2, 4, 5, 6),
        (4, 3, 3, 2),
        [1, 2],
        [1, 0],
        [2, 4],
        True,
        [1, 3],
        2,
    ),
    "groups of an empty batch": ((0, 4, 5), (4, 2, 3), [1], [1], [1], False, [0], 2),
    "3d": ((1, 2, 5, 6, 4), (3, 2, 2, 3, 2), [1, 2, 1], [1, 0, 1], [2, 1, 1], False, [0] * 3, 1),
    "transposed 1d": ((2, 4, 5), (4, 3, 4), [3], [1], [1], True, [2], 1),
    "transposed 2d groups": ((2, 4, 5, 6), (4, 3, 3, 2), [2, 3], [1, 0], [1, 2], True, [1, 1], 2),
    "transposed 2d more padding than reach": (
        (1, 2, 6, 6),
        (2, 2, 2, 2),
        [2, 2],
        [2, 2],
        [1, 1],
        True,
        [0, 0],
        1,
    ),
    "transposed 3d": (
        (1, 2, 3, 3, 3),
        (2, 2, 2, 2, 2),
        [2] * 3,
        [0] * 3,
        [1] * 3,
        True,
        [1] * 3,
        1,
    ),
    "1x1": ((2, 5, 7, 6), (3, 5, 1, 1), [2, 1], [1, 0], [1, 1], False, [0, 0], 1),
    "1x1 of an empty batch": ((0, 5, 7), (3, 5, 1), [2], [1], [1], False, [0], 1),
    "few windows, large kernel": (
        (1, 128, 7, 6),
        (1024, 128, 3, 3),
        [2, 1],
        [1, 0],
        [1, 2],
        False,
        [0, 0],
        1,
    ),
    "empty batch": ((0, 3, 7, 8), (4, 3, 3, 2), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
}


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case: str) -> None:
    x_shape, w_shape, *options = CASES[case]
    x, w = randn(*x_shape), randn(*w_shape)
    transposed, groups = options[3], options[5]
    bias = randn(w_shape[1] * groups if transposed else w_shape[0])
    check(aten.convolution.default, x, w, bias, *options, rtol=1e-4, atol=1e-4)
    out = aten.convolution.default(x, w, None, *options)
    for mask in ([True, True, True], [False, True, False]):
        check(
            aten.convolution_backward.default,
            randn(*out.shape), x, w, list(bias.shape), *options, mask, rtol=1e-4, atol=1e-4,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int64])
def test_dtypes(dtype: torch.dtype) -> None:
    if dtype.is_floating_point:
        x, w = randn(2, 3, 6, 6, dtype=dtype), randn(4, 3, 3, 3, dtype=dtype)
        bias = randn(4, dtype=dtype)
    else:
        x, w = torch.randint(-5, 5, (2, 3, 6, 6)), torch.randint(-5, 5, (4, 3, 3, 3))
        bias = torch.randint(-5, 5, (4,))
    options = ([1, 2], [1, 1], [1, 1], False, [0, 0], 1)
    check(aten.convolution.default, x, w, bias, *options)
    if dtype.is_floating_point:
        out = aten.convolution.default(x, w, bias, *options)
        wide: dict[str, Any] = {} if dtype == torch.float64 else {"rtol": 5e-2, "atol": 1e-1}
        args = (randn(*out.shape, dtype=dtype), x, w, [4], *options, [True, True, True])
        check(aten.convolution_backward.default, *args, **wide)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("groups", [2, 4])
def test_dtypes_with_groups(dtype: torch.dtype, groups: int) -> None:
    x, w = randn(2, 4, 6, 5, dtype=dtype), randn(4, 4 // groups, 3, 3, dtype=dtype)
    options = ([1, 2], [1, 1], [1, 1], False, [0, 0], groups)
    check(aten.convolution.default, x, w, randn(4, dtype=dtype), *options, rtol=1e-2, atol=1e-2)
    grad = randn(2, 4, 6, 3, dtype=dtype)
    mask = [True, True, True]
    check(
        aten.convolution_backward.default,
        grad, x, w, [4], *options, mask, rtol=2e-2, atol=2e-2,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("platform", "groups", "count"), [("cpu", 8, 0), ("cpu", 4, 0), ("tpu", 8, 3), ("tpu", 4, 3)]
)
def test_slow_convolutions_with_groups_are_replaced_on_cpus(
    platform: str, groups: int, count: int
) -> None:
    """On a TPU, XLA's own convolution is still used."""

    def step(x: Any, w: Any) -> Any:
        options = ([1, 1], [1, 1], [1, 1], False, [0, 0], groups)
        out = convolution(x, w, None, *options)
        return out, convolution_backward(out, x, w, None, *options, [True, True, False])[:2]

    x = jax.ShapeDtypeStruct((2, 8, 6, 6), jnp.float32)
    w = jax.ShapeDtypeStruct((8, 8 // groups, 3, 3), jnp.float32)
    lowered = jax.jit(step).trace(x, w).lower(lowering_platforms=(platform,))
    assert lowered.as_text().count("stablehlo.convolution(") == count


@pytest.mark.parametrize("groups", [8, 32])
def test_a_weight_gradient_stores_one_tap_at_a_time(groups: int) -> None:
    def gradient(grad: Any, x: Any, w: Any) -> Any:
        options = ([1, 1], [3, 3], [1, 1], False, [0, 0], groups)
        return convolution_backward(grad, x, w, None, *options, [False, True, False])[1]

    x = jax.ShapeDtypeStruct((2, 32, 64, 64), jnp.float32)
    w = jax.ShapeDtypeStruct((32, 32 // groups, 7, 7), jnp.float32)
    memory = jax.jit(gradient).lower(x, x, w).compile().memory_analysis()
    assert memory is not None
    assert memory.temp_size_in_bytes < 6 * x.size * 4


def test_large_convolutions_with_groups_use_xlas_own() -> None:
    options = (None, [1, 1], [1, 1], [1, 1], False, [0, 0], 2)
    w = jax.ShapeDtypeStruct((8, 4, 3, 3), jnp.float32)
    for size, count in ((64, 0), (512, 1)):
        x = jax.ShapeDtypeStruct((1, 8, size, size), jnp.float32)
        lowered = jax.jit(lambda x, w: convolution(x, w, *options)).lower(x, w)
        assert lowered.as_text().count("stablehlo.convolution(") == count


def test_windows_are_gathered_on_cpus_alone() -> None:
    options = (None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    x, weight = jnp.zeros((1, 128, 4, 4)), jnp.zeros((1024, 128, 3, 3))
    traced = jax.jit(lambda x, weight: convolution(x, weight, *options)).trace(x, weight)
    for platform, convolves in (("cpu", False), ("tpu", True)):
        text = traced.lower(lowering_platforms=(platform,)).as_text()
        assert ("stablehlo.convolution" in text) == convolves


@pytest.mark.parametrize("size", [1, 3])
def test_a_bias_is_added_before_half_precision_rounds(size: int) -> None:
    x, weight = torch.ones(1, 1, 5), torch.full((1, 1, size), 257 / size)
    arguments = [t.bfloat16() for t in (x, weight, torch.tensor([-256.0]))]
    rounded, kernel, bias = map(to_array, arguments)
    actual = convolution(rounded, kernel, bias, [1], [0], [1], False, [0], 1)
    exact = torch.conv1d(*(t.double() for t in arguments))
    torch.testing.assert_close(to_tensor(actual).double(), exact, rtol=1e-2, atol=0)
