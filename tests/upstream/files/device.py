# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that selects the device for torch's device-generic tests.

On the CPU, all tests of a file run. On tpu, only the device-generic classes run, which torch
instantiates for each device; the other classes would only repeat the CPU's tests.
"""

from __future__ import annotations

import importlib.util
import os

import pytest

DEVICE = "UPSTREAM_DEVICE"
DEVICES = ("cpu", "tpu")
# The variable that limits the devices for which torch's test framework instantiates classes.
_ONLY_FOR = "PYTORCH_TESTING_DEVICE_ONLY_FOR"
_NAMES = {"cpu": "cpu", "tpu": "privateuse1"}


def check(name: str) -> None:
    """Raise ValueError if this program's tests cannot run on the device."""
    if name not in DEVICES:
        raise ValueError(f"{DEVICE}: expected one of {', '.join(DEVICES)}, found '{name}'")
    if name == "tpu" and importlib.util.find_spec("torch_google.tpu") is None:
        raise ValueError("the device tpu is not in this program: run run_on_tpu.par")


def prepare() -> None:
    """Register the device that UPSTREAM_DEVICE names, before torch's test framework is imported.

    Raises ValueError if `check` rejects the device.
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
    selected = [item for item in items if _is_for_any_device(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(selected)])
    items[:] = selected


def _chosen() -> str:
    return os.environ.get(DEVICE) or "cpu"


def _is_for_any_device(item: pytest.Item) -> bool:
    # Before torch sets up the class, its name ends in PRIVATEUSE1; after that, in TPU.
    name = getattr(getattr(item, "cls", None), "__name__", "")
    return name.endswith(("PRIVATEUSE1", "TPU"))
