# SPDX-License-Identifier: Apache-2.0
"""Test that the check accepts a process with the device, and rejects one without it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.ecosystem import device_check
from tests.ecosystem.device_check import DeviceError

_ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    "TORCH_TPU_PLATFORM": "cpu",
}


def test_a_device_that_works_is_accepted(tmp_path: Path) -> None:
    device_check.check(_ENVIRONMENT | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}, tmp_path)


def test_a_device_that_is_not_loaded_raises_an_error_with_the_cause(tmp_path: Path) -> None:
    environment = _ENVIRONMENT | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    with pytest.raises(DeviceError, match="\nRuntimeError: Expected one of cpu"):
        device_check.check(environment, tmp_path)


def test_the_error_has_the_exit_status_of_a_silent_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_check, "_PROBE", "import os; os._exit(3)")
    with pytest.raises(DeviceError, match="The process exited with status 3"):
        device_check.check(_ENVIRONMENT, tmp_path)


def test_the_error_has_the_warning_that_explains_a_missing_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = "import warnings; warnings.warn('tpu: no file'); raise AttributeError('ones')"
    monkeypatch.setattr(device_check, "_PROBE", probe)
    with pytest.raises(DeviceError, match="UserWarning: tpu: no file\nAttributeError: ones"):
        device_check.check(_ENVIRONMENT, tmp_path)
