# SPDX-License-Identifier: Apache-2.0
"""Sixty-four bit types in JAX, as the runtime has them once its platform starts."""

import jax

jax.config.update("jax_enable_x64", True)
