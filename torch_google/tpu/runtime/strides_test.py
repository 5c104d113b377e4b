# SPDX-License-Identifier: Apache-2.0
"""Reads and writes of random views of an array equal torch's."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_google.tpu.runtime.strides import View, read, write

_SIZES = st.sampled_from((1, 2, 3, 4, 6))


@st.composite
def _views(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw a contiguous tensor and a view of it, which may have gaps and permuted dimensions."""
    shape = draw(st.lists(_SIZES, min_size=1, max_size=4))
    base = torch.arange(float(np.prod(shape))).reshape(shape)
    view = base
    for _ in range(draw(st.integers(0, 4))):
        if view.dim() == 0:
            break
        d = draw(st.integers(0, view.dim() - 1))
        step = draw(st.sampled_from(("select", "narrow", "transpose", "split", "flatten", "step")))
        if step == "select":
            view = view.select(d, draw(st.integers(0, view.size(d) - 1)))
        elif step == "narrow":
            start = draw(st.integers(0, view.size(d) - 1))
            view = view.narrow(d, start, draw(st.integers(1, view.size(d) - start)))
        elif step == "transpose":
            view = view.transpose(d, draw(st.integers(0, view.dim() - 1)))
        elif step == "split" and view.size(d) % 2 == 0:
            view = view.unflatten(d, (2, -1))
        elif step == "flatten" and view.is_contiguous():
            view = view.view(-1)
        elif step == "step":
            view = view[(slice(None),) * d + (slice(None, None, draw(st.integers(1, 3))),)]
    return base, view


@given(_views())
def test_a_view_is_read(drawn: tuple[torch.Tensor, torch.Tensor]) -> None:
    base, view = drawn
    values = np.asarray(read(jnp.asarray(base.numpy()), View.of(view)))
    assert np.array_equal(values, view.numpy())


@given(_views())
def test_a_write_replaces_the_view_alone(drawn: tuple[torch.Tensor, torch.Tensor]) -> None:
    base, view = drawn
    values = -1.0 - torch.arange(float(view.numel())).reshape(view.shape)
    written = write(jnp.asarray(base.numpy()), jnp.asarray(values.numpy()), View.of(view))
    view.copy_(values)
    assert np.array_equal(np.asarray(written), base.numpy())
