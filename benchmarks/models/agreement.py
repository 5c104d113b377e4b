# SPDX-License-Identifier: Apache-2.0
"""Compare the results of a program with those of torch on the CPU."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from benchmarks.models.model import Model


def difference(
    model: Model, expected: Mapping[str, torch.Tensor], actual: Mapping[str, torch.Tensor]
) -> str:
    """Return the first difference that exceeds the model's tolerance, or "" if there is none."""
    for name, value in expected.items():
        result = actual[name]
        if result.shape != value.shape:
            return f"{name}: shape {list(result.shape)}, torch has {list(value.shape)}"
        tolerance = model.update_tolerance if name == "update" else model.tolerance
        error = relative_error(value, result)
        if not error <= tolerance:  # Also if it is NaN.
            return f"{name}: relative error {error:.2g}, tolerance {tolerance:g}"
    return ""


def relative_error(expected: torch.Tensor, actual: torch.Tensor) -> float:
    """Return the L2 norm of the difference, relative to that of `expected`."""
    expected, actual = expected.double(), actual.double()
    scale = expected.norm().item()
    distance = (actual - expected).norm().item()
    return distance / scale if scale else distance
