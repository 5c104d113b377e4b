# SPDX-License-Identifier: Apache-2.0

import jax.numpy as jnp
import torch
import torch._inductor.inductor_prims  # defines the operator

from torch_google.tpu import lowerings


def test_fma() -> None:
    found = lowerings.find(torch.ops.prims.fma.default)
    assert found is not None
    result = found.function(jnp.asarray([2.0, -1.0]), jnp.asarray([3.0, jnp.inf]), jnp.asarray(1.0))
    assert result.tolist() == [7.0, -jnp.inf]
