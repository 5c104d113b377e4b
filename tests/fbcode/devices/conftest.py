# SPDX-License-Identifier: Apache-2.0
"""Register the device before importing torch's test framework, which then looks for devices."""

from torch_google.tpu import autoload

autoload()
