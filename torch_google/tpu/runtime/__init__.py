# SPDX-License-Identifier: Apache-2.0
"""The device at run time: it registers with torch, and starts when the first tensor needs it."""

from torch_google.tpu.runtime.registration import register

__all__ = ["register"]
