# SPDX-License-Identifier: Apache-2.0
"""Register the device before torch's test framework is imported and looks for devices."""

from torch_google.tpu import autoload

autoload()
