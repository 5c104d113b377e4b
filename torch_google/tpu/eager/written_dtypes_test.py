# SPDX-License-Identifier: Apache-2.0
"""A result written to a tensor of a different dtype is computed in the same dtype as on the CPU."""

from __future__ import annotations

import itertools

import pytest
import torch

_VALUES = torch.tensor([[0.6, 0.7, 1.5], [2.5, -1.7, 3.3], [0.4, 0.9, -0.2]])
_SOURCES = {
    "float32": _VALUES,
    "float64": _VALUES.double(),
    "bfloat16": (_VALUES * 100).bfloat16(),
    "int64": (_VALUES * 100).long(),
    "bool": _VALUES > 0.5,
    "complex64": torch.complex(_VALUES, -_VALUES),
}
_TARGETS = (
    *(torch.bool, torch.uint8, torch.int32, torch.int64),
    *(torch.bfloat16, torch.float32, torch.float64, torch.complex64),
)
_REDUCTIONS = ("sum", "nansum", "prod", "cumsum", "cumprod", "mean", "std", "var")


def _reduced(
    name: str, source: torch.Tensor, sizes: tuple[int, ...], target: torch.dtype, device: str
) -> torch.Tensor | str:
    """Return the reduction's result, or the first line of its error."""
    out = torch.zeros(sizes, dtype=target).to(device)
    try:
        result: torch.Tensor = getattr(torch, name)(source.to(device), 0, out=out)
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return result.cpu()


def _tolerance(source: str, target: torch.dtype) -> dict[str, float]:
    """Return tolerances for the computation's dtype, the less precise of `source` and `target`."""
    if target == torch.bfloat16:
        return {"rtol": 1e-2, "atol": 1e-2}
    if source in ("float32", "complex64") and target == torch.float64:
        return {"rtol": 1.3e-6, "atol": 1e-5}
    return {}


@pytest.mark.parametrize("source", _SOURCES)
@pytest.mark.parametrize("name", _REDUCTIONS)
def test_elements_are_cast_before_they_are_reduced(name: str, source: str) -> None:
    for target, empty in itertools.product(_TARGETS, (False, True)):
        sizes = (0,) if empty else _VALUES.shape[0 if name.startswith("cum") else 1 :]
        expected, actual = (
            _reduced(name, _SOURCES[source], tuple(sizes), target, on) for on in ("cpu", "tpu")
        )
        if isinstance(expected, str) or isinstance(actual, str):
            assert actual == expected, target
        else:
            torch.testing.assert_close(actual, expected, **_tolerance(source, target))


@pytest.mark.parametrize("mode", ["strict", "fused", "debug"])
@pytest.mark.parametrize("name", ["sum", "prod"])
def test_a_reduction_of_all_in_every_mode(name: str, mode: str) -> None:
    values = torch.tensor([0.6, 0.7, 2.5])
    expected = getattr(torch, name)(values, 0, out=torch.zeros((), dtype=torch.int64))
    with torch.tpu.eager_mode(mode):
        out = torch.zeros((), dtype=torch.int64, device="tpu")
        assert getattr(torch, name)(values.to("tpu"), 0, out=out).item() == expected.item()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.float16])
@pytest.mark.parametrize("name", ["cumsum_", "cumprod_"])
def test_a_scan_in_place_has_the_dtype_of_its_tensor(name: str, dtype: torch.dtype) -> None:
    values = torch.tensor([3, 0, 200, 100, 7]).to(dtype)
    expected = getattr(values.clone(), name)(0)
    assert torch.equal(getattr(values.to("tpu"), name)(0).cpu(), expected)


def test_a_dtype_that_is_given_counts() -> None:
    for on in ("cpu", "tpu"):
        x, out = _VALUES.to(on), torch.zeros(3, dtype=torch.float64, device=on)
        assert torch.sum(x, 0, dtype=torch.float64, out=out).dtype == torch.float64
        with pytest.raises(RuntimeError):
            torch.sum(x, 0, dtype=torch.int64, out=torch.zeros(3, device=on))


@pytest.mark.parametrize("mode", ["strict", "fused", "debug", "compile"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["sum", "nansum", "cumsum", "mean"])
def test_elements_are_rounded_to_half_precision_first(
    name: str, dtype: torch.dtype, mode: str
) -> None:
    def reduced(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = getattr(torch, name)(x, 0, dtype=dtype)
        return result

    values = torch.tensor([2.5, -3.3])  # rounding these numbers before the sum changes the result
    expected = reduced(values)
    if mode == "compile":
        actual = torch.compile(reduced)(values.to("tpu"))
    else:
        with torch.tpu.eager_mode(mode):
            actual = reduced(values.to("tpu"))
            written = torch.zeros_like(actual)
            getattr(torch, name)(values.to("tpu"), 0, out=written)
            assert torch.equal(written.cpu(), expected)
    assert torch.equal(actual.cpu(), expected)
