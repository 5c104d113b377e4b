# SPDX-License-Identifier: Apache-2.0
"""Test offline that the CUDA wheel's pin matches torch's pin, and that the CUDA lock is current."""

from __future__ import annotations

import json

import pytest

from third_party.pypi import lock
from third_party.torch.cuda import update

_PIN = json.loads(update.PIN.read_text())
_RELEASE = json.loads(lock.TORCH_PIN.read_text())
_LOCK = lock.loads(update.GROUP.with_suffix(".lock.json").read_text())
_MAIN = lock.loads(lock.FILE.read_text())
_UPDATE = "Run third_party/torch/cuda/update.py, then third_party/pypi/update.py."


@pytest.mark.parametrize("key", ["tag", "commit"])
def test_both_wheels_are_of_one_release(key: str) -> None:
    assert _PIN[key] == _RELEASE[key], _UPDATE


def test_both_wheels_have_one_version() -> None:
    assert _PIN["version"].partition("+")[0] == _RELEASE["version"].partition("+")[0], _UPDATE
    assert _PIN["version"].endswith(f"+cu{_PIN['cuda'].replace('.', '')}")


def test_the_group_has_the_requirements_of_the_pin() -> None:
    lines = lock.requirement_lines(update.GROUP.read_text())
    assert lines == _PIN["requires"], _UPDATE
    assert sorted(lines) == sorted(_LOCK.requirements), _UPDATE


def test_all_nvidia_wheels_are_marked_as_the_cuda_toolkit() -> None:
    rows = json.loads(lock.ANNOTATIONS.read_text())
    marked = {key for key, row in rows.items() if row.get("toolkit") == "cuda"}
    assert marked == {key for key in _LOCK.packages if key.startswith("nvidia_")}
    assert {"nvidia_cublas", "nvidia_cudnn_cu13", "nvidia_nccl_cu13"} <= marked


def test_no_wheel_of_cuda_is_in_the_main_lock() -> None:
    assert not [key for key in _MAIN.packages if key.startswith(("cuda_", "nvidia_"))]
