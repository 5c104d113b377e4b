# SPDX-License-Identifier: Apache-2.0
"""Test that training on the `tpu` device is as accurate as on the CPU, in every mode."""

from __future__ import annotations

import dataclasses
import functools
import pathlib

import pytest
import torch

from examples import digits, output, training
from tools.par.testing.budget import only_full
from torch_google.tpu import autoload
from torch_google.tpu.testing import quick_compiler

quick_compiler.use()
autoload()  # Register the device, because the entry point may not be installed.

_OPTIONS = training.Options(epochs=5, batch_size=32, learning_rate=3e-3, seed=0, device="cpu")
# The tolerated difference between the numbers of digits that are misclassified on tpu and on the
# CPU, which use different random numbers for dropout. About 5 of the 359 test digits are
# misclassified, not always the same ones.
_DIGITS = 7


@functools.cache
def _data() -> digits.Digits:
    return digits.read(digits.packed())


@functools.cache
def _on_cpu() -> training.Result:
    return training.train(_data(), _OPTIONS)


@pytest.mark.parametrize("mode", only_full("fused", "strict", "debug", "compile"))
def test_it_learns_what_the_cpu_learns(mode: str, tmp_path: pathlib.Path) -> None:
    options = dataclasses.replace(_OPTIONS, device="tpu", mode=mode)
    result = training.train(_data(), options)
    assert {parameter.device.type for parameter in result.network.parameters()} == {"tpu"}
    tested = len(_data()) // 5
    assert abs(round((result.accuracy - _on_cpu().accuracy) * tested)) <= _DIGITS
    assert result.accuracy >= 0.97
    assert result.losses[-1] == pytest.approx(_on_cpu().losses[-1], rel=0.5)
    checkpoint = output.write_checkpoint(tmp_path, result, options, data="packed")
    saved = torch.load(checkpoint, weights_only=True)
    assert saved["metadata"]["mode"] == mode
    assert {value.device.type for value in saved["state_dict"].values()} == {"cpu"}


def test_a_mode_of_the_device_on_another_is_refused() -> None:
    options = dataclasses.replace(_OPTIONS, mode="fused")
    with pytest.raises(training.TrainingError, match="--mode=fused: only the tpu device has it"):
        training.train(_data(), options)
