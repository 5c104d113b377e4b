# SPDX-License-Identifier: Apache-2.0
"""Test that each check detects its kind of fault, with fake operators that are wrong on tpu."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing._internal.opinfo.core import SampleInput

from tests.conformance import tolerances
from tests.conformance.rows import Outcome, Row, add
from tests.conformance.trial import attempt
from torch_google.tpu import autoload

autoload()


@dataclass
class Operator:
    """A fake op_db entry with the attributes that the checks use."""

    op: Callable[..., Any]
    inplace_variant: Callable[..., Any] | None = None
    name: str = "fake"
    variant_test_name: str = ""
    decorators: tuple[Any, ...] = ()

    def sample_inputs(
        self, device: str, dtype: torch.dtype, requires_grad: bool
    ) -> Iterator[SampleInput]:
        for size in (4, 6):
            x = torch.linspace(-1, 1, size * 3, dtype=dtype, device=device).reshape(size, 3)
            yield SampleInput(x.requires_grad_(requires_grad))

    @staticmethod
    def gradcheck_wrapper(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return op(*args, **kwargs)


def on_tpu(x: torch.Tensor) -> bool:
    return x.device.type == "tpu"


def on_tpu_of(x: torch.Tensor, size: int) -> int:
    return 2 if on_tpu(x) and x.shape[0] == size else 1


def tried(operator: Operator, check: str) -> dict[str, Row]:
    return {row.check: row for row in list(attempt(operator, torch.float32, check, 2))[-1]}


@pytest.mark.parametrize("check", ["forward", "backward", "out", "inplace"])
def test_what_is_right_passes(check: str) -> None:
    rows = tried(Operator(torch.sin, torch.Tensor.sin_), check)
    assert {row.outcome for row in rows.values()} == {Outcome.PASSED}
    assert rows[check].samples == rows[check].passed == 2


def test_values() -> None:
    rows = tried(Operator(lambda x: x.cos() if on_tpu(x) else x.sin()), "forward")
    assert rows["forward"].outcome is Outcome.WRONG
    assert rows["forward"].message.startswith("sample 0: Tensor-likes are not close!")
    assert rows["strides"].good


def test_where_the_cpu_is_wrong_the_reference_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tolerances.REFERRED, "fake", "the CPU is off here")
    monkeypatch.setattr(Operator, "ref", staticmethod(np.sin), raising=False)
    right = Operator(lambda x: x.sin() if on_tpu(x) else x.sin() + 0.01)
    assert tried(right, "forward")["forward"].good
    wrong = Operator(lambda x: x.sin() + 0.1 if on_tpu(x) else x.sin() + 0.01)
    assert tried(wrong, "forward")["forward"].outcome is Outcome.WRONG


def test_strides() -> None:
    rows = tried(Operator(lambda x: (x + 1).contiguous() if on_tpu(x) else (x.T + 1).T), "forward")
    assert rows["forward"].good
    rows = tried(Operator(lambda x: x + 1 if on_tpu(x) else (x + 1).T.contiguous().T), "forward")
    assert rows["forward"].good
    assert rows["strides"].message == "sample 0: result 0: strides (3, 1), expected strides (1, 4)"


def test_a_copy_in_place_of_a_view() -> None:
    rows = tried(Operator(lambda x: x.clone() if on_tpu(x) else x[:]), "forward")
    assert rows["strides"].message.endswith("expected strides (3, 1) of an argument")


def test_gradients() -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return gradient

    operator = Operator(lambda x: Wrong.apply(x) if on_tpu(x) else x * 2)
    assert tried(operator, "forward")["forward"].good
    assert tried(operator, "backward")["backward"].outcome is Outcome.WRONG


def test_a_missing_gradient() -> None:
    operator = Operator(lambda x: x.detach() * 2 + 0 * x.sum() if on_tpu(x) else x * 2)
    assert tried(operator, "backward")["backward"].outcome is Outcome.WRONG


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x, out: x.sin(),
        lambda x, out: out.copy_(x.cos()) if out.numel() else torch.sin(x, out=out),
        lambda x, out: torch.sin(x, out=out) if not out.numel() else out.set_(x.sin()),
    ],
    ids=["not written", "wrong values", "other strides"],
)
def test_out(wrong: Callable[..., torch.Tensor]) -> None:
    def op(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        return wrong(x, out) if on_tpu(x) and out is not None else torch.sin(x, out=out)

    assert tried(Operator(op), "out")["out"].outcome is Outcome.WRONG


@pytest.mark.parametrize(
    "wrong",
    [lambda x: x.sin(), lambda x: x.set_(x.sin()), lambda x: x.cos_()],
    ids=["not written", "another storage", "wrong values"],
)
def test_inplace(wrong: Callable[[torch.Tensor], torch.Tensor]) -> None:
    operator = Operator(torch.sin, lambda x: wrong(x) if on_tpu(x) else x.sin_())
    assert tried(operator, "inplace")["inplace"].outcome is Outcome.WRONG


def test_distributions() -> None:
    assert tried(Operator(torch.rand_like), "forward")["forward"].good
    shifted = Operator(lambda x: torch.rand_like(x) + (0.3 if on_tpu(x) else 0.0))
    assert tried(shifted, "forward")["forward"].outcome is Outcome.WRONG
    assert tried(Operator(lambda x: torch.dropout(x, 0.5, True)), "backward")["backward"].good
    never = Operator(lambda x: torch.dropout(x, 0.5, True) if not on_tpu(x) else x * 1)
    assert tried(never, "backward")["backward"].outcome is Outcome.WRONG


def test_errors() -> None:
    def refuse(x: torch.Tensor) -> torch.Tensor:
        if on_tpu(x):
            raise NotImplementedError("tpu: no such thing")
        return x

    def break_down(x: torch.Tensor) -> torch.Tensor:
        return x + torch.ones(7, device=x.device) if on_tpu(x) else x

    row = tried(Operator(refuse), "forward")["forward"]
    assert (row.outcome, row.message) == (Outcome.UNSUPPORTED, "sample 0: tpu: no such thing")
    row = tried(Operator(break_down), "forward")["forward"]
    assert row.outcome is Outcome.CRASHED
    assert "must match" in row.message


def test_where_the_first_that_goes_wrong_is() -> None:
    *_, (row, _) = attempt(Operator(lambda x: x * on_tpu_of(x, 6)), torch.float32, "forward", None)
    assert (row.passed, row.samples, row.taken, row.total, row.first) == (1, 2, 2, 2, 1)
    assert row.message.startswith("sample 1: ")
    *_, (row, _) = attempt(Operator(lambda x: x * on_tpu_of(x, 6)), torch.float32, "forward", 1)
    assert (row.passed, row.samples, row.taken, row.total, row.first) == (1, 1, 1, 2, None)
    assert not row.whole


def test_a_sample_more() -> None:
    row = Row("fake", "float32", "forward", Outcome.EMPTY, total=3)
    row = add(row, Outcome.PASSED, 0, "")
    row = add(row, Outcome.CRASHED, None, "the process ended")
    assert (row.passed, row.samples, row.taken, row.first) == (1, 2, 2, 1)
    assert row.ended
    later = add(row, Outcome.WRONG, 2, "off")
    assert (later.outcome, later.message, later.first) == (Outcome.CRASHED, "the process ended", 1)
    assert not later.ended


def test_what_the_cpu_refuses_does_not_count() -> None:
    row = tried(Operator(lambda x: x.no_such_method()), "forward")["forward"]
    assert (row.outcome, row.samples, row.counts) == (Outcome.EMPTY, 0, False)
