# SPDX-License-Identifier: Apache-2.0
"""The device for tests: registered before torch's machinery for tests is imported, which asks."""

from torch_google.tpu import autoload

autoload()
