# SPDX-License-Identifier: Apache-2.0
"""If torch is configured to be deterministic, uninitialized memory is filled as on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from torch_google.tpu.release import V2_6

_DTYPES = [torch.float32, torch.bool, torch.int8, torch.complex64, torch.bfloat16]
if not V2_6:  # v2.6 cannot fill with integers that exceed the signed range
    _DTYPES.append(torch.uint64)


@pytest.fixture(autouse=True)
def determined() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.cpu().contiguous().view(torch.uint8)


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize(
    "make",
    [
        lambda **kind: torch.empty(3, 2, **kind),
        lambda **kind: torch.empty_like(torch.zeros(3, 2, **kind)),
        lambda **kind: torch.empty_strided((3, 2), (1, 3), **kind),
        lambda **kind: torch.empty_permuted((2, 3, 5), (1, 0, 2), **kind),
        lambda **kind: torch.empty(3, 2, out=torch.zeros(1, **kind)),
        lambda **kind: torch.zeros(1, **kind).new_empty(3, 2),
    ],
)
def test_new_tensors(make: Callable[..., torch.Tensor], dtype: torch.dtype) -> None:
    actual, expected = make(device="tpu", dtype=dtype), make(device="cpu", dtype=dtype)
    assert torch.equal(as_bytes(actual), as_bytes(expected))


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize(
    ("before", "after"), [((10,), (5,)), ((10,), (20,)), ((2, 3, 4), (2, 5, 4)), ((0,), (3,))]
)
def test_resized_tensors(
    before: tuple[int, ...], after: tuple[int, ...], dtype: torch.dtype
) -> None:
    contents = []
    for device in ("tpu", "cpu"):
        tensor = torch.zeros(before, dtype=dtype, device=device).resize_(after)
        storage = tensor.untyped_storage()
        flat = torch.zeros(0, dtype=dtype, device=device)
        flat.set_(storage, 0, (storage.nbytes() // dtype.itemsize,), (1,))
        contents.append(as_bytes(flat))
    assert torch.equal(*contents)


def test_that_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)
    misses = torch.tpu.metrics().operators
    torch.empty(3, device="tpu")
    assert torch.tpu.metrics().operators == misses


def test_what_only_cuda_cannot_determine_is_allowed() -> None:
    x = torch.rand(3, 4, device="tpu")
    values, places = torch.empty(0, device="tpu"), torch.empty(0, dtype=torch.int64, device="tpu")
    torch.median(x, 0, out=(values, places))
    assert values.shape == places.shape == x.nanmedian(0).values.shape == x.mode(0).values.shape
    assert torch.histc(x, 4, 0, 1).shape == (4,)
