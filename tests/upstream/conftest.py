# SPDX-License-Identifier: Apache-2.0
"""Register the device before torch's test framework is imported and looks for devices."""

import os

from torch_google.tpu import autoload
from torch_google.tpu.testing.quick_compiler import XLA_FLAGS

os.environ["XLA_FLAGS"] = f"{XLA_FLAGS} {os.environ.get('XLA_FLAGS', '')}"
os.environ.setdefault("TORCH_TPU_CPU_KERNELS", "0")  # run programs, as on a TPU
# If tpu runs on the CPU, emulate two devices, because some tests copy from one to the other.
os.environ.setdefault("TORCH_TPU_CPU_DEVICES", "2")
autoload()
