# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from third_party.pypi import target

_FITS = [
    ("absl_py-2.5.1-py3-none-any.whl", ("any",)),
    ("sortedcontainers-2.4.0-py2.py3-none-any.whl", ("any",)),
    ("x-1-py3-none-manylinux_2_17_x86_64.whl", ("manylinux_2_17_x86_64",)),
    ("x-1-cp311-cp311-manylinux_2_28_x86_64.whl", ("manylinux_2_28_x86_64",)),
    ("x-1-cp39-abi3-manylinux2014_x86_64.whl", ("manylinux2014_x86_64",)),
    ("x-1-7-cp311-cp311-linux_x86_64.whl", ("linux_x86_64",)),
    ("libtpu-0.0.42.1-cp311-cp311-manylinux_2_31_x86_64.whl", ("manylinux_2_31_x86_64",)),
    ("torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl", ("manylinux_2_28_x86_64",)),
]


@pytest.mark.parametrize(("filename", "platforms"), _FITS)
def test_accepts_what_runs_on_the_target(filename: str, platforms: tuple[str, ...]) -> None:
    assert target.platforms(filename) == platforms


@pytest.mark.parametrize(
    "filename",
    [
        "x-1-cp312-cp312-manylinux_2_28_x86_64.whl",
        "x-1-cp310-cp310-manylinux_2_28_x86_64.whl",
        "x-1-cp312-abi3-manylinux_2_28_x86_64.whl",
        "x-1-cp311-cp311-macosx_14_0_arm64.whl",
        "x-1-cp311-cp311-manylinux_2_28_aarch64.whl",
        "x-1-cp311-cp311-manylinux_2_31_x86_64.whl",
        "x-1-cp311-cp311-manylinux_2_39_x86_64.whl",
        "libtpu-1-cp311-cp311-manylinux_2_39_x86_64.whl",
        "x-1-cp311-cp311-musllinux_1_2_x86_64.whl",
        "x-1-cp311-cp311-win_amd64.whl",
        "x-1-py2-none-any.whl",
        "x-1.tar.gz",
        "x.whl",
    ],
)
def test_refuses_what_does_not(filename: str) -> None:
    assert target.platforms(filename) is None


def test_pip_is_told_the_target_and_not_left_to_look_at_its_host() -> None:
    options = target.pip_options(("manylinux_2_28_x86_64",))
    assert "--python-version=3.11" in options
    assert "--abi=cp311" in options
    assert [option for option in options if "platform" in option] == [
        "--platform=manylinux_2_28_x86_64"
    ]


def test_a_newer_platform_is_only_for_packages_that_need_it() -> None:
    assert target.platforms_for(["jax==0.10.2", "libtpu-nightly"]) == target.PLATFORMS
    tags = target.platforms_for(["jax", "libtpu==0.0.42.*"])
    assert tags == (*target.PLATFORMS, "manylinux_2_31_x86_64")
