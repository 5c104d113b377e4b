# SPDX-License-Identifier: Apache-2.0
"""Set the device of peft's tests, which take it from a fixed list of accelerate's.

The device of peft itself is `peft.utils.infer_device()`.
"""

import os

import torch
from accelerate.test_utils import testing

_DEVICE = os.environ["PEFT_TEST_DEVICE"]

if _DEVICE != "cpu":
    testing.get_backend = lambda: (
        _DEVICE,
        torch.accelerator.device_count(),
        torch.accelerator.memory_allocated,
    )
