# SPDX-License-Identifier: Apache-2.0
"""Set the device of accelerate's tests, which otherwise choose one from a fixed list."""

import os

import torch
from accelerate import test_utils
from accelerate.test_utils import testing

_DEVICE = os.environ["ACCELERATE_TEST_DEVICE"]

if _DEVICE != "cpu":
    for _module in (testing, test_utils):
        _module.torch_device = _DEVICE
        _module.device_count = torch.accelerator.device_count()
        _module.memory_allocated_func = torch.accelerator.memory_allocated
