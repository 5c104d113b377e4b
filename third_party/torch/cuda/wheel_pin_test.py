# SPDX-License-Identifier: Apache-2.0
"""The metadata of a CUDA wheel is read correctly, and a wheel from another commit is rejected."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from third_party.torch.cuda import wheel_metadata, wheel_pin
from third_party.torch.cuda.wheel_metadata import WheelError, WheelMetadata

_COMMIT = "c" * 40
_RELEASE = wheel_pin.Release("v1.0", _COMMIT, "torch/pin.json")
_NEEDS = ("filelock", 'nvidia-x==1; platform_system == "Linux" and python_version < "3.15"')


def _wheel(directory: Path, version_py: str) -> Path:
    path = directory / "torch-1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        needs = "".join(f"Requires-Dist: {line}\n" for line in _NEEDS)
        archive.writestr("torch-1.0.dist-info/METADATA", f"Name: torch\n{needs}")
        archive.writestr("torch/version.py", version_py)
    return path


def test_the_facts_of_a_wheel(tmp_path: Path) -> None:
    wheel = _wheel(
        tmp_path,
        "from typing import Optional\n__version__ = '1.0+cu130'\n"
        f"cuda: Optional[str] = '13.0'\ngit_version = '{_COMMIT}'\n",
    )
    assert wheel_metadata.read(wheel) == WheelMetadata("1.0+cu130", _COMMIT, "13.0", _NEEDS)


def test_a_wheel_without_cuda_is_rejected(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, f"__version__ = '1.0'\ncuda = None\ngit_version = '{_COMMIT}'\n")
    with pytest.raises(WheelError, match=r"names no CUDA\. Use another index"):
        wheel_metadata.read(wheel)


def test_requirements_of_both_wheels_and_of_extras_are_left_out() -> None:
    lines = (*_NEEDS, 'optree; extra == "optree"', "triton==3")
    assert wheel_metadata.added_requirements(lines, ("filelock",)) == ("nvidia-x==1", "triton==3")


def test_an_unknown_marker_is_not_dropped() -> None:
    with pytest.raises(WheelError, match="unknown marker 'platform_machine"):
        wheel_metadata.added_requirements(['x; platform_machine == "arm64"'], ())


def test_a_wheel_of_another_commit_is_rejected() -> None:
    metadata = WheelMetadata("1.0+cu130", "d" * 40, "13.0", _NEEDS)
    with pytest.raises(
        WheelError, match=f"built from commit {'d' * 40}, but torch/pin.json has {_COMMIT}"
    ):
        wheel_pin.pin_of(_RELEASE, "torch-1.0-x.whl", "0" * 64, metadata, ())


def test_the_pin_has_the_version_in_the_file_name() -> None:
    metadata = WheelMetadata("1.0+cu130", _COMMIT, "13.0", _NEEDS)
    pin = wheel_pin.pin_of(_RELEASE, "torch-1.0-x.whl", "0" * 64, metadata, ("filelock",))
    assert pin["wheel"] == {"version": "1.0", "filename": "torch-1.0-x.whl", "sha256": "0" * 64}
    assert pin["requires"] == ["nvidia-x==1"]
