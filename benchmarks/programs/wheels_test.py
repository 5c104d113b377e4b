# SPDX-License-Identifier: Apache-2.0
"""Test that both kinds have the pinned wheels, and that only missing wheels are fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.programs import wheels
from third_party.pypi import fetch_wheel


def _names(kind: str) -> set[str]:
    return {pin.requirement.partition("=")[0].lower() for pin in wheels.pins(kind)}


def test_both_kinds_have_torch_with_its_own_requirements() -> None:
    # sympy needs mpmath, and Jinja2 needs MarkupSafe.
    common = {"torch", "numpy", "filelock", "sympy", "mpmath", "jinja2", "markupsafe"}
    assert common <= _names("CPU") <= _names("CUDA")
    assert {"triton", "nvidia-cublas", "nvidia-cudnn-cu13"} <= _names("CUDA") - _names("CPU")


def test_the_kinds_have_different_wheels_of_one_release() -> None:
    (cpu, cuda) = (wheels.pins(kind)[0] for kind in wheels.KINDS)
    assert cpu.requirement == f"{cuda.requirement}+cpu"
    assert cpu.sha256 != cuda.sha256


def test_only_missing_wheels_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fetch(pin: fetch_wheel.Pin, directory: Path, **_: Any) -> Path:
        asked.append(pin.filename)
        path = directory / pin.filename
        path.write_bytes(b"wheel")
        return path

    monkeypatch.setattr(fetch_wheel, "fetch", fetch)
    wheels.fetch("CPU", tmp_path / "wheels")
    names = [pin.filename for pin in wheels.pins("CPU")]
    assert asked == names
    assert sorted(path.name for path in (tmp_path / "wheels").iterdir()) == sorted(names)
    (tmp_path / "wheels" / names[1]).unlink()
    wheels.fetch("CPU", tmp_path / "wheels")
    assert asked == [*names, names[1]]
