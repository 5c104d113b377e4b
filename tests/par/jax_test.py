# SPDX-License-Identifier: Apache-2.0
"""JAX works on the CPU. This is a separate file, because a fork is unsafe once JAX has threads."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np


def test_jit_and_gradient_on_the_cpu() -> None:
    def loss(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(x) ** 2)

    x = jnp.arange(4.0)
    assert {device.platform for device in x.devices()} == {"cpu"}
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(x), np.sin(2 * np.arange(4.0)), atol=1e-6)
