# SPDX-License-Identifier: Apache-2.0
"""Makes JAX functions, including Pallas kernels, available as torch operators."""
# ruff: noqa: E402 - JAX must be imported before the modules that use it

from torch_google.tpu.runtime.jax_import import import_jax

import_jax()

from torch_google.tpu.kernels.kernel_decorator import custom_kernel

__all__ = ["custom_kernel"]
