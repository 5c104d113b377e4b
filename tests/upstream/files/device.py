# SPDX-License-Identifier: Apache-2.0
"""On which device torch's tests for any device run, and what else of a file does. A plugin of pytest.

On the CPU a file is whole. On tpu it is its classes for any device, of which torch makes one for each
that there is: the others would only run once more what ran on the CPU.
"""

from __future__ import annotations

import importlib.util
import os

import pytest

DEVICE = "UPSTREAM_DEVICE"
DEVICES = ("cpu", "tpu")
# torch's machinery for tests asks which devices to make classes for; by this name it knows ours.
_ONLY_FOR = "PYTORCH_TESTING_DEVICE_ONLY_FOR"
_NAMES = {"cpu": "cpu", "tpu": "privateuse1"}


def check(name: str) -> None:
    """Raises ValueError for a device that this program's tests do not run on."""
    if name not in DEVICES:
        raise ValueError(f"{DEVICE}: expected one of {', '.join(DEVICES)}, found '{name}'")
    if name == "tpu" and importlib.util.find_spec("torch_google.tpu") is None:
        raise ValueError("the device tpu is not in this program: run run_on_tpu.par")


def prepare() -> None:
    """Register the device that the environment names, before torch's machinery for tests is imported.

    Raises ValueError as `check` does.
    """
    name = _chosen()
    check(name)
    os.environ[_ONLY_FOR] = _NAMES[name]
    if name == "tpu":
        from torch_google.tpu import autoload

        autoload()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _chosen() == "cpu":
        return
    left = [item for item in items if _is_for_any_device(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(left)])
    items[:] = left


def _chosen() -> str:
    return os.environ.get(DEVICE) or "cpu"


def _is_for_any_device(item: pytest.Item) -> bool:
    # Its class has torch's name for the device before it is set up, ours after.
    name = getattr(getattr(item, "cls", None), "__name__", "")
    return name.endswith(("PRIVATEUSE1", "TPU"))
