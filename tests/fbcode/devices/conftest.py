# SPDX-License-Identifier: Apache-2.0
"""Register the device before torch's test framework is imported, which looks for devices then."""

from torch_google.tpu import autoload

autoload()
