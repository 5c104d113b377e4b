# SPDX-License-Identifier: Apache-2.0
"""A fat binary contains a cubin for each architecture, and PTX for newer GPUs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from third_party.cuda.tests.fat_binary import (
    Cubin,
    Kind,
    dynamic_symbols,
    images,
    read_cubin,
)

_FOLDER = Path(__file__).parent / "doubled.kernels"
_KERNELS = frozenset({"doubled_kernel", "warp_sums_kernel", "texture_kernel"})


def _file(name: str) -> bytes:
    return (_FOLDER / name).read_bytes()


@pytest.mark.parametrize("arch", [80, 90])
def test_a_cubin_is_for_its_gpu(arch: int) -> None:
    assert read_cubin(_file(f"doubled.sm_{arch}.cubin")) == Cubin(arch, _KERNELS)


@pytest.mark.parametrize("arch", [80, 90])
def test_ptx_is_for_its_gpu(arch: int) -> None:
    text = _file(f"doubled.sm_{arch}.ptx").decode()
    assert f".target sm_{arch}\n" in text
    assert ".visible .entry doubled_kernel(" in text


def test_the_fat_binary_has_all_cubins_and_the_newest_ptx() -> None:
    parts = list(images(_file("doubled.fatbin")))
    assert [(image.kind, image.arch) for image in parts] == [
        (Kind.CUBIN, 80),
        (Kind.CUBIN, 90),
        (Kind.PTX, 90),
    ]
    for image in parts[:2]:
        assert image.content.rstrip(b"\0") == _file(f"doubled.sm_{image.arch}.cubin").rstrip(b"\0")
    # nvFatbin drops comments from PTX.
    text = parts[2].content.rstrip(b"\0").decode()
    assert ".target sm_90\n" in text
    assert all(f".visible .entry {kernel}(" in text for kernel in _KERNELS)


def test_the_library_contains_the_fat_binary() -> None:
    library = (Path(__file__).parent / "_doubled.so").read_bytes()
    assert _file("doubled.fatbin") in library


def test_the_cuda_runtime_stays_apart_from_that_of_torch() -> None:
    names = dynamic_symbols((Path(__file__).parent / "_doubled.so").read_bytes())
    assert "PyInit__doubled" in names
    assert [name for name in names if name.lstrip("_").startswith("cuda")] == []


def test_a_wrong_list_of_gpus_gives_one_line() -> None:
    archs = json.loads((Path(__file__).parent / "archs.json").read_text())
    problems = archs["problems"]
    assert problems.pop("good") is None
    assert problems.pop("unknown").startswith("archs has 'sm_100'; the known ones are sm_50, ")
    assert problems == {
        "none": 'archs is []; name each GPU once, such as ["sm_80", "sm_90"]',
        "twice": 'archs is ["sm_80", "sm_80"]; name each GPU once, such as ["sm_80", "sm_90"]',
    }
    assert archs["ptx"] == ["sm_90", None]


@pytest.mark.parametrize(
    "file",
    [
        "doubled.NVIDIA_EULA.txt",
        "module_static_test.launcher.licence_files/cuda/NVIDIA_EULA.txt",
    ],
)
def test_nvidias_licence_is_beside_its_runtime(file: str) -> None:
    assert "libcudart_static.a" in (Path(__file__).parent / file).read_text()


def test_paths_of_the_build_are_in_no_output() -> None:
    names = ["doubled.fatbin", "doubled.sm_80.ptx", "doubled.sm_90.cubin", "doubled.o"]
    for name in names:
        assert b"/sandbox/" not in _file(name), name
        assert b"/execroot/" not in _file(name), name


def test_another_file_is_refused() -> None:
    with pytest.raises(ValueError, match="begins with 0xba55ed50, this one with 0x464c457f"):
        list(images(b"\x7fELF" + bytes(60)))
    with pytest.raises(ValueError, match="the machine is 62, not NVIDIA CUDA"):
        read_cubin(b"\x7fELF\x02\x01" + bytes(12) + b"\x3e\0" + bytes(44))
