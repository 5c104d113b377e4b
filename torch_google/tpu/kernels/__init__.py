# SPDX-License-Identifier: Apache-2.0
"""JAX functions, including Pallas kernels, as torch operators."""

from torch_google.tpu.kernels.kernel_decorator import custom_kernel

__all__ = ["custom_kernel"]
