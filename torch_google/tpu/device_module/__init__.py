# SPDX-License-Identifier: Apache-2.0
"""The module `torch.tpu`."""

from torch_google.tpu.device_module import tpu

__all__ = ["tpu"]
