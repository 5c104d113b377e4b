# SPDX-License-Identifier: Apache-2.0
"""Trial runs on the CPU reject and accept the right calls, and have no side effects."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torch_google.tpu.program import probe
from torch_google.tpu.program.probe import Refusal

_ATEN: Any = torch.ops.aten


def _meta(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(sizes, dtype=dtype, device="meta")


@pytest.mark.parametrize("sizes", [(2, 3), (4096, 4096)], ids=["small", "large"])
@pytest.mark.parametrize(
    ("op", "rest", "dtype"),
    [
        (_ATEN._softmax.default, (1, False), torch.int64),
        (_ATEN.sort.default, (), torch.complex64),
        (_ATEN.max.default, (), torch.complex64),
    ],
)
def test_a_dtype_is_refused_in_the_words_of_the_cpu(
    op: Any, rest: tuple[Any, ...], dtype: torch.dtype, sizes: tuple[int, ...]
) -> None:
    with pytest.raises(probe.REFUSALS) as expected:
        op(torch.zeros(2, 3, dtype=dtype), *rest)
    args = [_meta(*sizes, dtype=dtype), *rest]
    args += [argument.default_value for argument in op._schema.arguments[len(args) :]]
    with pytest.raises(Refusal) as actual:
        probe.check(op, args)
    assert type(actual.value.error) is type(expected.value)
    assert str(actual.value) == str(expected.value)


def test_the_trial_of_a_large_call_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    elements: list[int] = []
    filled = probe._filled

    def counted(*args: Any) -> torch.Tensor:
        tensor = filled(*args)
        elements.append(tensor.numel())
        return tensor

    monkeypatch.setattr(probe, "_filled", counted)
    probe.check(_ATEN.mm.default, [_meta(1 << 20, 1 << 20), _meta(1 << 20, 1 << 20)])
    assert elements == [64, 64]


def test_a_large_call_is_not_refused_for_the_sizes_of_its_corner() -> None:
    probe.check(_ATEN.view.default, [_meta(128, 128), [16384]])


@pytest.mark.parametrize(
    ("op", "args"),
    [
        (_ATEN.linalg_inv_ex.default, [_meta(2, 2), True]),  # a matrix of zeros is singular
        (_ATEN.index_select.default, [_meta(2), 0, _meta(1, dtype=torch.int64)]),
        (_ATEN.linalg_cholesky_ex.default, [_meta(2, 2)]),
    ],
)
def test_zeros_are_no_reason_to_refuse(op: Any, args: list[Any]) -> None:
    args += [argument.default_value for argument in op._schema.arguments[len(args) :]]
    probe.check(op, args)


def test_the_cpus_generator_and_tensors_stay_as_they_are() -> None:
    state = torch.default_generator.get_state()
    number = torch.tensor(3.0)
    probe.check(_ATEN.bernoulli.default, [_meta(3), None])
    probe.check(_ATEN.add_.Tensor, [number, _meta(), 1])
    assert torch.equal(torch.default_generator.get_state(), state)
    assert number.item() == 3.0


def test_a_gradient_of_integers_is_tried_and_one_of_floats_is_not() -> None:
    places = _meta(1, 2, 2, dtype=torch.int64)
    op = _ATEN.max_pool2d_with_indices_backward.default
    rest = ([2, 2], [2, 2], [0, 0], [1, 1], False, places)
    integers = [_meta(1, 2, 2, dtype=torch.int64), _meta(1, 4, 4, dtype=torch.int64), *rest]
    with pytest.raises(Refusal, match="not implemented for 'Long'"):
        probe.check(op, integers)
    probe.check(op, [_meta(1, 2, 2), _meta(1, 4, 4), *rest])


def test_operators_of_other_libraries_have_no_trial() -> None:
    library = torch.library.Library("tpu_probe_test", "FRAGMENT")
    library.define("fails(Tensor x) -> Tensor")

    def fails(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("not a number type")

    library.impl("fails", fails, "CPU")
    probe.check(torch.ops.tpu_probe_test.fails.default, [_meta(2)])
