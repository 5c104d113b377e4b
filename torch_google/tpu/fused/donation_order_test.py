# SPDX-License-Identifier: Apache-2.0
"""Running all reads before a write avoids a copy, and does not change any bit of the result."""

from __future__ import annotations

import copy
import re
from types import SimpleNamespace
from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import assume, given
from torch import nn

from torch_google.tpu.fused import fusion
from torch_google.tpu.fused.donation_order import DonationOrder, behind

_ANY = [-0.0, 0.0, 1.5, -2.25, float("inf"), float("-inf"), float("nan"), 1e-40]


# For each kind of program with two inputs: the function, the number of results, and whether it only
# rearranges elements.
_KINDS = {
    "product": (lambda a, b: [a @ b], 1, False),
    "sum and difference": (lambda a, b: [a + b, a - b], 2, False),
    "transpose": (lambda a, b: [a.T], 1, True),
    "halves": (lambda a, b: [a[:1], a[1:]], 2, True),
    "nothing": (lambda a, b: [], 0, True),
    "nothing computed": (lambda a, b: (jnp.sin(a), [])[1], 0, False),
}
_SHAPE = jax.ShapeDtypeStruct((2, 2), jnp.float32)
_PROGRAMS = {
    kind: SimpleNamespace(jaxpr=jax.jit(function).trace(_SHAPE, _SHAPE).jaxpr)
    for kind, (function, _, _) in _KINDS.items()
}


@given(st.data())
def test_late_reads_are_those_that_a_search_of_all_paths_finds(data: Any) -> None:
    steps: list[tuple[str, tuple[int, ...]]] = []
    makers: list[int] = []  # for each slot, the step that computes it
    for index in range(data.draw(st.integers(1, 10))):
        kind = data.draw(st.sampled_from(list(_KINDS)))
        wire = st.integers(-3, len(makers) - 1)
        steps.append((kind, (data.draw(wire), data.draw(wire))))
        makers += [index] * _KINDS[kind][1]
    assume(makers)
    external = data.draw(st.integers(0, 2))
    slot = data.draw(st.integers(0, len(makers) - 1))

    def needs(index: int) -> set[int]:
        return {index}.union(*(needs(makers[wire]) for wire in steps[index][1] if wire >= 0))

    def is_or_shows(wire: int) -> bool:
        if wire < 0:
            return wire == ~external
        kind, wires = steps[makers[wire]]
        return _KINDS[kind][2] and any(is_or_shows(each) for each in wires)

    expected = {
        index
        for index, (kind, wires) in enumerate(steps)
        if index in makers and not _KINDS[kind][2] and any(is_or_shows(wire) for wire in wires)
    } - needs(makers[slot])
    programs: Any = [(_PROGRAMS[kind], wires) for kind, wires in steps]
    reads = DonationOrder(programs).of(external, slot)
    assert {makers[each] for each in reads} == expected
    assert len(reads) == len(expected)


@given(
    st.sampled_from([jnp.float32, jnp.bfloat16, jnp.float16]),
    st.lists(st.sampled_from(_ANY), min_size=1, max_size=5),
    st.lists(st.tuples(st.sampled_from("fbiecx"), st.sampled_from(_ANY)), max_size=3),
)
def test_the_value_is_the_same_bit_for_bit(
    dtype: Any, values: list[float], taken: list[tuple[str, float]]
) -> None:
    value = jnp.asarray(values, dtype)
    reads = []
    for kind, number in taken:
        if kind == "e":
            reads.append(jnp.zeros((3, 0), jnp.float32))
        elif kind in "bi":
            reads.append(jnp.full((2, 2), number > 0, bool if kind == "b" else jnp.int32))
        else:
            dtypes = {"f": jnp.float32, "c": jnp.complex64, "x": jnp.bfloat16}
            reads.append(jnp.full((2, 1), number, dtypes[kind]))
    actual = jax.jit(behind)(value, reads)
    bits = np.uint32 if dtype == jnp.float32 else np.uint16
    # Compare only the bits of numbers, because any operation may change the payload of a NaN.
    number = ~np.isnan(np.asarray(value, np.float32))
    np.testing.assert_array_equal(
        np.asarray(actual).view(bits)[number], np.asarray(value).view(bits)[number]
    )
    assert np.isnan(np.asarray(actual, np.float32))[~number].all()


def test_integers_have_no_order() -> None:
    value = jnp.arange(3)
    assert behind(value, [jnp.ones(2)]) is value


@pytest.mark.full
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_a_step_copies_no_weight(optimizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = []
    compile_ = fusion.Fusion.compile

    def compile_and_keep(self: fusion.Fusion) -> jax.stages.Compiled:
        programs.append(compile_(self))
        return programs[-1]

    monkeypatch.setattr(fusion.Fusion, "compile", compile_and_keep)
    torch.manual_seed(0)
    # No other test uses these sizes, so the program must be compiled here.
    model = nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 40), nn.Linear(40, 24))
    reference = copy.deepcopy(model)
    x = torch.randn(16, 24)
    losses = {}
    for device, trained in (("cpu", reference), ("tpu", model.to("tpu"))):
        steps = optimizer(trained.parameters(), lr=0.01)
        inputs = x.to(device)
        device_losses = []
        with torch.tpu.eager_mode("fused"):
            for _ in range(6):
                steps.zero_grad()
                loss = nn.functional.mse_loss(trained(inputs), inputs)
                loss.backward()
                steps.step()
                device_losses.append(loss.item())
                torch.tpu.wait_for_compiles()
        losses[device] = device_losses
    torch.testing.assert_close(
        torch.tensor(losses["tpu"]), torch.tensor(losses["cpu"]), rtol=1e-4, atol=1e-6
    )
    assert programs
    copied = re.findall(r"= f32\[(?:40,24|40,40|24,40)\]\S* copy\(%values", programs[-1].as_text())
    assert copied == []
