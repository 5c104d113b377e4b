# SPDX-License-Identifier: Apache-2.0
"""Keeps the step counters of compiled optimizers on the device, as torch does on CUDA.

Dynamo makes a new optimizer `capturable` only if its parameters are on CUDA or XPU. With the
counters on the CPU, each launch of the program would have to read and write them.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch


def keep_counters_on_device() -> None:
    """Make Dynamo treat tpu as a device that supports capturable optimizers. Idempotent."""
    from torch._dynamo.variables.optimizer import OptimizerVariable

    original = OptimizerVariable._set_capturable
    if hasattr(original, "__wrapped__"):
        return

    @wraps(original)
    def set_capturable(self: OptimizerVariable, tx: Any) -> None:
        _set_capturable(self.value)
        original(self, tx)

    OptimizerVariable._set_capturable = set_capturable


def _set_capturable(optimizer: torch.optim.Optimizer) -> None:
    for group in optimizer.param_groups:
        parameters = group["params"]
        on_device = all(parameter.device.type == "tpu" for parameter in parameters)
        fresh = not any(parameter in optimizer.state for parameter in parameters)
        if "capturable" in group and parameters and on_device and fresh:
            group["capturable"] = True
