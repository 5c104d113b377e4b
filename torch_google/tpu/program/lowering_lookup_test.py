# SPDX-License-Identifier: Apache-2.0

import jax.numpy as jnp
import pytest
import torch

from torch_google.tpu.lowerings import find, lowering
from torch_google.tpu.program.lowering_lookup import lowering_of
from torch_google.tpu.program.small_table import small_table

__all__ = ["small_table"]
pytestmark = pytest.mark.usefixtures("small_table")
aten, prims = torch.ops.aten, torch.ops.prims


def test_a_prim_has_the_lowering_of_its_namesake() -> None:
    assert lowering_of(prims.mul.default) is find(aten.mul.Tensor)
    lowering("aten::erfinv")(jnp.abs)
    assert lowering_of(prims.erf_inv.default) is find(aten.erfinv.default)


def test_its_own_lowering_goes_first() -> None:
    lowering("prims::add")(jnp.add)
    assert lowering_of(prims.add.default) is find(prims.add.default)


def test_what_means_something_else_has_none() -> None:
    assert lowering_of(prims.div.default) is None
    assert lowering_of(prims.atan.default) is None
    assert lowering_of(aten.atan.default) is None
