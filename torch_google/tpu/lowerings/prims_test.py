# SPDX-License-Identifier: Apache-2.0

import jax.numpy as jnp
import torch
import torch._inductor.inductor_prims  # this import defines prims.fma

from torch_google.tpu import lowerings


def test_fma() -> None:
    actual = lowerings.find(torch.ops.prims.fma.default)
    assert actual is not None
    result = actual.function(
        jnp.asarray([2.0, -1.0]), jnp.asarray([3.0, jnp.inf]), jnp.asarray(1.0)
    )
    assert result.tolist() == [7.0, -jnp.inf]
