# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import torch

from benchmarks.models import agreement
from benchmarks.models.zoo import MODELS

_MODEL = MODELS["torch/dcgan"]
_VALUES = {"losses": torch.tensor([2.0, 1.0]), "update": torch.tensor([3e-3, 4e-3])}


def test_each_result_has_its_tolerance() -> None:
    near = {"losses": _VALUES["losses"] + 5e-4, "update": _VALUES["update"] * 1.005}
    assert agreement.difference(_MODEL, _VALUES, near) == ""
    assert agreement.difference(_MODEL, _VALUES, {**near, "losses": _VALUES["losses"] + 0.1}) == (
        "losses: relative error 0.063, tolerance 0.001"
    )
    assert agreement.difference(_MODEL, _VALUES, {**near, "update": _VALUES["update"] * 1.02}) == (
        "update: relative error 0.02, tolerance 0.01"
    )


def test_a_nan_and_another_shape_differ() -> None:
    nan = {**_VALUES, "losses": torch.tensor([2.0, torch.nan])}
    assert agreement.difference(_MODEL, _VALUES, nan).startswith("losses: relative error nan")
    longer = {**_VALUES, "update": torch.zeros(3)}
    assert agreement.difference(_MODEL, _VALUES, longer) == "update: shape [3], torch has [2]"


def test_zeros_are_compared_by_distance() -> None:
    assert agreement.relative_error(torch.zeros(2), torch.tensor([3.0, 4.0])) == 5
