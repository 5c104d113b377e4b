# SPDX-License-Identifier: Apache-2.0
"""Other libraries that choose a device from a closed list, extended by this device."""

from torch_google.tpu.integrations.install import VARIABLE, install

__all__ = ["VARIABLE", "install"]
