# SPDX-License-Identifier: Apache-2.0
"""What the CPU refuses, the device refuses: mostly in the same words."""

from __future__ import annotations

from typing import Any, NoReturn

import jax
import pytest
import torch
from torch.utils.data import DataLoader

from torch_google.tpu import _C
from torch_google.tpu.runtime import compiler
from torch_google.tpu.runtime.misses import CacheMissError


def test_a_negative_size_is_refused_in_torchs_words() -> None:
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        torch.empty(2, -1, device="tpu")


def test_what_lies_on_the_cpu_is_not_written_by_the_device() -> None:
    refusal = "expected what is written to be on tpu.*found a tensor of the CPU"
    with pytest.raises(RuntimeError, match=refusal):
        torch.zeros(()).random_(generator=torch.Generator("tpu"))
    with pytest.raises(RuntimeError, match=refusal):
        torch.zeros(()).add_(torch.ones((), device="tpu"))
    with pytest.raises(RuntimeError, match=refusal):
        torch.add(torch.ones(2, device="tpu"), 1, out=torch.zeros(()))


def test_a_loader_that_draws_on_the_cpu_takes_no_generator_of_the_device() -> None:
    loader = DataLoader(list(range(4)), shuffle=True, generator=torch.Generator("tpu"))
    with pytest.raises(RuntimeError, match="take a generator of the CPU"):
        next(iter(loader))


def test_products_of_two_dtypes_are_refused_in_the_words_of_the_cpu() -> None:
    a = torch.ones(2, 2, device="tpu")
    b = torch.ones(2, 2, dtype=torch.float64, device="tpu")
    with pytest.raises(RuntimeError, match="have the same dtype, but got: float != double"):
        a @ b
    with pytest.raises(RuntimeError, match="mat1 and mat2 must have the same dtype"):
        torch.nn.functional.linear(a.bfloat16(), a, a[0])


@pytest.mark.parametrize(
    "refusal",
    [
        CacheMissError("a program", "a key"),
        torch.OutOfMemoryError("no room for a program"),
        jax.errors.JaxRuntimeError("INTERNAL: no program"),
    ],
    ids=lambda refusal: type(refusal).__name__,
)
def test_what_is_said_of_a_program_is_not_hidden_by_what_the_cpu_says_of_zeros(
    refusal: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise refusal

    a = torch.tensor([7, 8, 9, 10, 11]).to("tpu")
    _C.clear_programs()
    monkeypatch.setattr(compiler, "compiled", refuse)
    with pytest.raises(type(refusal)) as said:
        a % a
    assert str(said.value) == str(refusal)
    monkeypatch.undo()
    assert (a % a).tolist() == [0] * 5
