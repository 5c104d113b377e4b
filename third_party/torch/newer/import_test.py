# SPDX-License-Identifier: Apache-2.0
"""The newer wheel works in a PAR on a machine without a CUDA driver. Manual: it fetches 2.5 GB."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import json

import torch

_ROOM = importlib.resources.files("third_party.torch.newer")
_PIN = json.loads((_ROOM / "pin.json").read_text())
_LOCK = json.loads((_ROOM / "lock.json").read_text())["packages"]


def test_the_program_has_the_pinned_release() -> None:
    assert torch.__version__ == _PIN["version"]
    assert torch.version.git_version == _PIN["commit"]
    assert torch.version.cuda == _PIN["cuda"]


def test_the_packages_have_the_versions_of_its_own_lock() -> None:
    for key in ("triton", "nvidia_cublas", "nvidia_cudnn_cu13", "cuda_bindings"):
        row = _LOCK[key]
        assert importlib.metadata.version(row["distribution"]) == row["version"]


def test_autograd_works_on_the_cpu() -> None:
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    (x @ x.mT).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[6.0, 10.0, 14.0]] * 2
    assert torch.compile(lambda y: y.sin() + 1, backend="eager")(torch.zeros(2)).tolist() == [1, 1]


def test_the_wheel_contains_the_seam() -> None:
    from torch import _utils_internal

    assert _utils_internal.USE_GLOBAL_DEPS is False
