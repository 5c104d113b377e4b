# SPDX-License-Identifier: Apache-2.0
"""Functions of JAX, Pallas kernels among them, as operators of torch."""

from torch_google.tpu.kernels.kernel_decorator import custom_kernel

__all__ = ["custom_kernel"]
