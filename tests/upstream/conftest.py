# SPDX-License-Identifier: Apache-2.0
"""The device for tests: registered before torch's machinery for tests is imported, which asks."""

import os

from torch_google.tpu import autoload
from torch_google.tpu.testing.quick_compiler import XLA_FLAGS

os.environ["XLA_FLAGS"] = f"{XLA_FLAGS} {os.environ.get('XLA_FLAGS', '')}"
# Where the platform is the CPU: some tests go from one device to another.
os.environ.setdefault("TORCH_TPU_CPU_DEVICES", "2")
autoload()
