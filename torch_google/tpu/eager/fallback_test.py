# SPDX-License-Identifier: Apache-2.0
"""With CPU fallback, operators write to the arguments that their schemas mark as written."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_google.tpu.eager import fallback

# The float 1.0, reinterpreted as an integer.
_ONE = 0x3F800000

_library = torch.library.Library("tpu_fallback_test", "FRAGMENT")
_library.define("add_(Tensor(a!) x, Tensor y) -> Tensor(a!)")
_library.define("fill_and_read(Tensor(a!) x, Tensor y) -> Tensor")
_library.define("fill_both_(Tensor(a!) x, Tensor(b!) y) -> ()")
_library.define("fill_all_(Tensor(a!)[] xs, Tensor y) -> ()")
_library.impl("add_", lambda x, y: x.copy_(x + y), "CPU")
_library.impl("fill_and_read", lambda x, y: (x.fill_(_ONE), y.clone())[1], "CPU")
_library.impl("fill_both_", lambda x, y: (x.fill_(1), y.fill_(2), None)[2], "CPU")
_library.impl("fill_all_", lambda xs, y: [x.copy_(y) for x in xs].clear(), "CPU")
ops = torch.ops.tpu_fallback_test


@pytest.fixture(autouse=True)
def _allowed() -> Iterator[None]:
    with torch.tpu.cpu_fallback():
        yield


# Each function takes a tensor with six elements and writes to some of them.
OVERLAPS: dict[str, Callable[[torch.Tensor], Any]] = {
    "a tensor twice": lambda x: ops.add_(x, x),
    "views that overlap": lambda x: ops.add_(x[1:4], x[2:5]),
    "a view and its whole": lambda x: ops.fill_and_read(x[1:4], x),
    "a transposition": lambda x: ops.fill_and_read(x.view(2, 3).t()[1], x),
    "another dtype": lambda x: ops.fill_and_read(x.view(torch.int32)[::2], x),
    "conjugated": lambda x: ops.add_(torch.view_as_complex(x.view(3, 2)).conj(), x[:3]),
    "two writes": lambda x: ops.fill_both_(x[:4], x[2:]),
    "a list": lambda x: ops.fill_all_([x[:2], x[1:3]], x[4:]),
    "no overlap": lambda x: ops.add_(x[:3], x[3:].clone()),
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_arguments_of_one_storage_are_one_memory(name: str) -> None:
    results = []
    for device in ("cpu", "tpu"):
        x = torch.arange(6.0).to(device)
        result = OVERLAPS[name](x)
        results.append([x.cpu(), None if result is None else result.cpu()])
    assert results[1][0].tolist() == results[0][0].tolist()
    if results[0][1] is not None:
        assert torch.equal(results[1][1], results[0][1])
    assert sum(torch.tpu.metrics().fallbacks.values()) == 1


def test_what_is_only_read_stays_what_a_backward_pass_has_saved() -> None:
    w = torch.ones(3, device="tpu", requires_grad=True)
    x = torch.zeros(3, device="tpu")
    loss = (w * w).sum()
    version = w._version
    assert ops.add_(x, w.detach()) is x
    assert (x.tolist(), w._version) == ([1, 1, 1], version)
    loss.backward()
    assert w.grad is not None
    assert w.grad.tolist() == [2, 2, 2]


def test_the_first_fallback_of_an_operator_warns_and_no_later_one() -> None:
    fallback._warned.difference_update({"tpu_fallback_test::add_", "tpu_fallback_test::fill_both_"})
    x = torch.ones(2, device="tpu")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            ops.add_(x, x)
            ops.fill_both_(x, x.clone())
    fallback_warnings = [
        w for w in caught if "runs on the CPU, as cpu_fallback() allows" in str(w.message)
    ]
    assert [str(w.message).split()[1] for w in fallback_warnings] == [
        "tpu_fallback_test::add_",
        "tpu_fallback_test::fill_both_",
    ]
    assert {Path(w.filename).name for w in fallback_warnings} == {Path(__file__).name}
