# SPDX-License-Identifier: Apache-2.0
"""Adds the device to other libraries that support only a fixed list of devices."""

from torch_google.tpu.integrations.install import VARIABLE, install

__all__ = ["VARIABLE", "install"]
