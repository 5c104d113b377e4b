# SPDX-License-Identifier: Apache-2.0
"""An unknown device is reported by name; on tpu, only device-generic classes run."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest

from tests.upstream.files import device, run


class _Item:
    def __init__(self, cls: type | None) -> None:
        self.cls = cls


def test_a_device_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="expected one of cpu, tpu, found 'gpu'"):
        device.check("gpu")
    assert run.main(["test_nn", "--device=gpu"]) == 1
    assert "found 'gpu'" in capsys.readouterr().err


def test_a_program_without_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    device.check("cpu")
    with pytest.raises(ValueError, match=r"not in this program: run run_on_tpu\.par"):
        device.check("tpu")


@pytest.mark.parametrize(("name", "selected"), [("cpu", [0, 1, 2]), ("tpu", [1]), ("", [0, 1, 2])])
def test_what_of_a_file_runs(
    name: str, selected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(device.DEVICE, name)
    classes = [type("TestView", (), {}), type("TestViewPRIVATEUSE1", (), {}), None]
    items: list[Any] = [_Item(cls) for cls in classes]
    collected, gone = [*items], []
    hook = SimpleNamespace(pytest_deselected=lambda items: gone.extend(items))
    config: Any = SimpleNamespace(hook=hook)
    device.pytest_collection_modifyitems(config, collected)
    assert collected == [items[index] for index in selected]
    assert gone == [item for item in items if item not in collected]
