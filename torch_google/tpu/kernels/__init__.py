# SPDX-License-Identifier: Apache-2.0
"""Makes JAX functions, including Pallas kernels, available as torch operators."""

from torch_google.tpu.kernels.kernel_decorator import custom_kernel

__all__ = ["custom_kernel"]
