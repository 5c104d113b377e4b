# SPDX-License-Identifier: Apache-2.0
"""What a program overwrites is not copied where it can be read before, and its bits are the same."""

from __future__ import annotations

import copy
import re
from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import nn

from torch_google.tpu.runtime import fused
from torch_google.tpu.runtime.late_reads import behind

_ANY = [-0.0, 0.0, 1.5, -2.25, float("inf"), float("-inf"), float("nan"), 1e-40]


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
            kinds = {"f": jnp.float32, "c": jnp.complex64, "x": jnp.bfloat16}
            reads.append(jnp.full((2, 1), number, kinds[kind]))
    found = jax.jit(behind)(value, reads)
    bits = np.uint32 if dtype == jnp.float32 else np.uint16
    # A NaN may come back as another one, as from any computation.
    number = ~np.isnan(np.asarray(value, np.float32))
    np.testing.assert_array_equal(
        np.asarray(found).view(bits)[number], np.asarray(value).view(bits)[number]
    )
    assert np.isnan(np.asarray(found, np.float32))[~number].all()


def test_integers_have_no_order() -> None:
    value = jnp.arange(3)
    assert behind(value, [jnp.ones(2)]) is value


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_a_step_copies_no_weight(optimizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = []
    compile_ = fused.Fusion.compile

    def compile_and_keep(self: fused.Fusion) -> jax.stages.Compiled:
        programs.append(compile_(self))
        return programs[-1]

    monkeypatch.setattr(fused.Fusion, "compile", compile_and_keep)
    torch.manual_seed(0)
    # No other test has such sizes, nor then such a program.
    model = nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 40), nn.Linear(40, 24))
    reference = copy.deepcopy(model)
    x = torch.randn(16, 24)
    losses = {}
    for device, trained in (("cpu", reference), ("tpu", model.to("tpu"))):
        steps = optimizer(trained.parameters(), lr=0.01)
        inputs = x.to(device)
        found = []
        with torch.tpu.eager_mode("fused"):
            for _ in range(6):
                steps.zero_grad()
                loss = nn.functional.mse_loss(trained(inputs), inputs)
                loss.backward()
                steps.step()
                found.append(loss.item())
                torch.tpu.wait_for_compiles()
        losses[device] = found
    torch.testing.assert_close(
        torch.tensor(losses["tpu"]), torch.tensor(losses["cpu"]), rtol=1e-4, atol=1e-6
    )
    assert programs
    copied = re.findall(r"= f32\[(?:40,24|40,40|24,40)\]\S* copy\(%values", programs[-1].as_text())
    assert copied == []
