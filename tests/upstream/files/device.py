# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that selects the device for torch's device-generic tests.

On the CPU, all tests of a file run. On tpu, only the classes that torch instantiates for each
device run, because the others do not use the device.
"""

from __future__ import annotations

import importlib.util
import os

import pytest

DEVICE = "UPSTREAM_DEVICE"
DEVICES = ("cpu", "tpu")
# torch's test framework instantiates classes only for the devices that this variable names.
_ONLY_FOR = "PYTORCH_TESTING_DEVICE_ONLY_FOR"
_NAMES = {"cpu": "cpu", "tpu": "privateuse1"}


def check(name: str) -> None:
    """Raise a ValueError if the device is unknown or this program does not contain it."""
    if name not in DEVICES:
        raise ValueError(f"{DEVICE}: expected one of {', '.join(DEVICES)}, found '{name}'")
    if name == "tpu" and importlib.util.find_spec("torch_google.tpu") is None:
        raise ValueError("the tpu device is not in this program: run run_on_tpu.par")


def prepare() -> None:
    """Register the device that UPSTREAM_DEVICE names. Raises a ValueError if `check` rejects it.

    Call this function before importing torch's test framework.
    """
    name = _chosen()
    check(name)
    os.environ[_ONLY_FOR] = _NAMES[name]
    if name == "tpu":
        os.environ.setdefault("TORCH_TPU_CPU_KERNELS", "0")  # run programs, as on a TPU
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
    # The name of a class for tpu ends in PRIVATEUSE1 until torch's setUpClass renames it to TPU.
    name = getattr(getattr(item, "cls", None), "__name__", "")
    return name.endswith(("PRIVATEUSE1", "TPU"))
