# SPDX-License-Identifier: Apache-2.0
"""Debug mode raises the CPU's error for invalid values (other than indices)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from torch_google.tpu.release import has_operator

_ATEN = torch.ops.aten
_NAN, _INF = math.nan, math.inf
Make = Callable[..., torch.Tensor]


def _int(make: Make, values: list[int]) -> torch.Tensor:
    return make(values, dtype=torch.int32)


def _image(make: Make, size: int) -> torch.Tensor:
    return make([1.0] * size).expand(1, 1, size, size)


# A valid call to each operator, and calls that the CPU rejects.
CASES: dict[str, tuple[Callable[[Make], Any], list[Callable[[Make], Any]]]] = {
    "multinomial": (
        lambda t: torch.multinomial(t([[0.5, 0.0, 0.5]]), 2),
        [
            lambda t: torch.multinomial(t([0.5, -0.1, 0.6]), 1),
            lambda t: torch.multinomial(t([0.5, _NAN]), 1),
            lambda t: torch.multinomial(t([0.5, _INF]), 2),
            lambda t: torch.multinomial(t([[1.0, 1], [0, 0]]), 1),
        ],
    ),
    "multinomial with replacement": (
        lambda t: torch.multinomial(t([0.5, 0.0, 0.5]), 9, replacement=True),
        [
            lambda t: torch.multinomial(t([0.5, -0.1, 0.6]), 4, replacement=True),
            lambda t: torch.multinomial(t([0.5, _INF]), 4, replacement=True),
            lambda t: torch.multinomial(t([0.0, 0.0]), 4, replacement=True),
        ],
    ),
    "bernoulli": (
        lambda t: torch.bernoulli(t([0.0, 1.0])),
        [
            lambda t: torch.bernoulli(t([0.5, 1.5])),
            lambda t: torch.bernoulli(t([0.5, _NAN])),
            lambda t: t([0.0, 0.0]).bernoulli_(t([0.5, -0.5])),
        ],
    ),
    "poisson": (
        lambda t: torch.poisson(t([0.0, 3.0])),
        [lambda t: torch.poisson(t([1.0, -1.0])), lambda t: torch.poisson(t([_NAN]))],
    ),
    "normal": (
        lambda t: torch.normal(t([0.0]), t([0.0])),
        [
            lambda t: torch.normal(t([0.0, 0.0]), t([1.0, -1.0])),
            lambda t: torch.normal(0.0, t([_NAN])),
        ],
    ),
    "binary_cross_entropy": (
        lambda t: functional.binary_cross_entropy(t([0.0, 1.0]), t([1.0, 0.0])),
        [
            lambda t: functional.binary_cross_entropy(t([0.5, 1.5]), t([0.0, 1.0])),
            lambda t: functional.binary_cross_entropy(t([0.5, _NAN]), t([0.0, 1.0])),
            lambda t: functional.binary_cross_entropy(t([0.5, 0.5]), t([0.0, -2.0])),
        ],
    ),
    "max_unpool": (
        lambda t: functional.max_unpool2d(_image(t, 2), t([[[[0, 3], [5, 15]]]]), 2),
        [
            lambda t: functional.max_unpool1d(t([[[1.0, 2.0]]]), t([[[1, 9]]]), 2),
            lambda t: functional.max_unpool2d(_image(t, 2), t([[[[1, 3], [5, 16]]]]), 2),
            lambda t: functional.max_unpool2d(_image(t, 2), t([[[[1, 3], [5, -9]]]]), 2),
            lambda t: functional.max_unpool3d(_image(t, 2)[None], t([[[[[1, 3], [5, 99]]]]]), 2),
        ],
    ),
    "histograms": (
        lambda t: torch.histc(t([1.0, _INF]), 3, 0, 4),
        [
            lambda t: torch.histc(t([1.0, _INF])),
            lambda t: torch.histogram(t([1.0, _NAN]), 3),
        ],
    ),
    "searchsorted": (
        lambda t: torch.searchsorted(t([3.0, 1.0]), t([2.0]), sorter=t([1, 0])),
        [
            lambda t: torch.searchsorted(t([1.0, 2.0]), t([2.0]), sorter=t([0, 7])),
            lambda t: torch.searchsorted(t([1.0, 2.0]), t([2.0]), sorter=t([0, -1])),
        ],
    ),
    "pivots": (
        lambda t: torch.lu_unpack(t([[1.0]]), _int(t, [1])),
        [
            lambda t: torch.lu_unpack(t([[1.0]]), _int(t, [2])),
            lambda t: torch.lu_unpack(t([[1.0]]), _int(t, [0])),
            lambda t: torch.linalg.lu_solve(t([[1.0]]), _int(t, [2]), t([[1.0]])),
            lambda t: torch.linalg.lu_solve(t([[1.0]]), _int(t, [0]), t([[1.0]])),
            lambda t: torch.linalg.ldl_solve(t([[1.0]]), _int(t, [2]), t([[1.0]])),
        ],
    ),
    "embedding_bag": (
        lambda t: functional.embedding_bag(t([0, 1]), t([[1.0], [1.0]]), t([0, 2])),
        [
            lambda t: functional.embedding_bag(t([0, 1]), t([[1.0], [1.0]]), t([1, 2])),
            lambda t: functional.embedding_bag(t([0, 1]), t([[1.0], [1.0]]), t([0, 3])),
        ],
    ),
    "segment_reduce": (
        lambda t: torch.segment_reduce(t([1.0, 2.0]), "sum", lengths=t([0, 2])),
        [
            lambda t: torch.segment_reduce(t([1.0, 2.0]), "sum", lengths=t([3, -1])),
            lambda t: torch.segment_reduce(t([1.0, 2.0]), "sum", lengths=t([1, 0])),
        ],
    ),
    "assertions": (
        lambda t: torch._assert_async(t(True), "unused"),
        [
            lambda t: torch._assert_async(t(0.0)),
            lambda t: torch._assert_async(t(False), "my {words}"),
        ],
    ),
    "quantile": (
        lambda t: torch.quantile(t([1.0, 2.0]), t([0.0, 1.0])),
        [
            lambda t: torch.quantile(t([1.0, 2.0]), t([0.5, 1.5])),
            lambda t: torch.nanquantile(t([1.0, 2.0]), t([0.5, -1.5])),
        ],
    ),
    "one_hot": (
        lambda t: functional.one_hot(t([0, 2])),
        [
            lambda t: functional.one_hot(t([0, -1])),
            lambda t: functional.one_hot(t([0, -1]), 3),
            lambda t: functional.one_hot(t([0, 5]), 3),
        ],
    ),
    "matrices that are not finite": (
        lambda t: torch.linalg.svd(t([[1.0, 2.0], [0.0, 1.0]])),
        [
            lambda t: torch.linalg.eig(t([[1.0, _INF], [0.0, 1.0]])),
            lambda t: torch.linalg.svd(t([[1.0, _NAN], [0.0, 1.0]])),
            lambda t: torch.linalg.svdvals(t([[[1.0]], [[2.0]], [[_NAN]]])),
            lambda t: torch.linalg.matrix_rank(t([[_NAN]])),
            lambda t: torch.linalg.pinv(t([[1.0, _NAN], [0.0, 1.0]])),
        ],
    ),
    "backward of losses": (
        lambda t: _ATEN.nll_loss_backward(t(1.0), t([[1.0]]), t([0]), None, 1, -100, t(1.0)),
        [
            lambda t: _ATEN.nll_loss_backward(t(1.0), t([[1.0]]), t([5]), None, 1, -100, t(1.0)),
        ],
    ),
}
if has_operator("aten::cholesky"):  # v2.15 has only torch.linalg.cholesky
    CASES["cholesky"] = (
        lambda t: torch.cholesky(t([[2.0, 1.0], [1.0, 2.0]])),
        [
            lambda t: torch.cholesky(t([[1.0, 2.0], [2.0, 1.0]])),
            lambda t: torch.cholesky(t([[[1.0]], [[-1.0]]])),
            lambda t: torch.cholesky(t([[4.0, 2, 1], [2, 2, 3], [1, 3, 1.0]]), upper=True),
        ],
    )


def _on(device: str) -> Make:
    return lambda values, **options: torch.tensor(values, device=device, **options)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].partition("  (Could")[0]


@pytest.mark.parametrize("name", CASES)
def test_debug_refuses_what_the_cpu_refuses_in_its_words(name: str) -> None:
    fine, wrong = CASES[name]
    with torch.tpu.eager_mode("debug"):
        fine(_on("tpu"))
        for call in wrong:
            with pytest.raises((RuntimeError, IndexError)) as expected:
                call(_on("cpu"))
            with pytest.raises((RuntimeError, IndexError)) as actual:
                call(_on("tpu"))
            assert actual.type is expected.type
            if name != "backward of losses":  # checks_test.py tests the messages of index errors
                assert _first_line(expected.value) in str(actual.value)
            assert f"{Path(__file__).name}:{call.__code__.co_firstlineno}: aten::" in str(
                actual.value
            )
        fine(_on("tpu"))


@pytest.mark.parametrize("mode", ["strict", "fused", "debug"])
@pytest.mark.parametrize(
    "draw",
    [
        lambda x, p: torch.bernoulli(x, p),
        lambda x, p: torch.native_dropout(x, p, True),
    ],
    ids=["bernoulli", "native_dropout"],
)
def test_the_number_of_a_distribution_is_refused_in_each_mode(
    draw: Callable[[torch.Tensor, float], Any], mode: str
) -> None:
    with pytest.raises(RuntimeError) as expected:
        draw(torch.ones(2), 1.5)
    x = torch.ones(2, device="tpu")
    with (
        torch.tpu.eager_mode(mode),
        pytest.raises(RuntimeError, match=re.escape(str(expected.value))),
    ):
        draw(x, 1.5)


@pytest.mark.parametrize("draw", ["exponential_", "geometric_", "bernoulli_"])
def test_a_number_is_judged_again_by_a_program_that_exists(draw: str) -> None:
    for device in ("cpu", "tpu"):
        x = torch.empty(3, device=device)
        getattr(x, draw)(0.5)
        with torch.tpu.eager_mode("debug"), pytest.raises(RuntimeError, match="expects"):
            getattr(x, draw)(-0.5)


@pytest.mark.parametrize("value", [1j, 1.0, True])
def test_a_dtype_is_judged_before_the_values(value: complex) -> None:
    for device in ("cpu", "tpu"):
        with (
            torch.tpu.eager_mode("debug"),
            pytest.raises(RuntimeError, match="only applicable to index tensor of type LongTensor"),
        ):
            functional.one_hot(torch.tensor([value], device=device))
