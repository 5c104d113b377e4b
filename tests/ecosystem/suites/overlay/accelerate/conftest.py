# SPDX-License-Identifier: Apache-2.0
"""Tell accelerate's tests their device, which they look for in a list of known devices."""

import os

import torch
from accelerate import test_utils
from accelerate.test_utils import testing

if os.environ["ACCELERATE_TEST_DEVICE"] != "cpu":
    for _module in (testing, test_utils):
        _module.torch_device = os.environ["ACCELERATE_TEST_DEVICE"]
    testing.device_count = torch.accelerator.device_count()
    testing.memory_allocated_func = torch.accelerator.memory_allocated
