# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tools.importer.errors import UserError
from tools.importer.metadata import sample_workspace
from tools.importer.metadata.metadata_file import UrlType
from tools.importer.metadata.vendored import (
    buildifier,
    c_sources,
    clang,
    cuda,
    of_project,
    projects,
    requirement_key,
    source_version,
    torch_variants,
)


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    return sample_workspace.make(tmp_path)


def test_a_project_is_its_pin(root: Path) -> None:
    (project,) = projects(root)
    torch = of_project(project, sample_workspace.PIN, ("a_b",))
    assert (torch.name, torch.version, torch.release) == ("torch", "v1.0", "1.0+cpu")
    assert torch.download == "https://wheels.example.com/cpu/torch-1.0%2Bcpu-py3-none-any.whl"
    assert torch.purls == ("pkg:pypi/torch@1.0%2Bcpu", f"pkg:github/upstream/torch@{'c' * 40}")
    assert (torch.local_modifications, torch.needs) == ("patches/torch/v1.0", ("a_b",))
    assert (torch.metadata, torch.sha256) == ("third_party/torch/METADATA", "a" * 64)


def test_a_wheel_that_requires_the_project_gets_it(root: Path) -> None:
    (project,) = projects(root)
    assert of_project(project, sample_workspace.PIN, ()).replaces == {"torch"}


def test_a_wheel_of_the_usual_index_has_no_address(root: Path) -> None:
    (project,) = projects(root)
    pin = {**sample_workspace.PIN, "wheel": {"filename": "torch-1.0.whl", "sha256": "a" * 64}}
    torch = of_project(project, pin, ())
    assert [url.type for url in torch.urls] == [UrlType.GIT]
    assert torch.download == ""


def test_git_elsewhere(root: Path) -> None:
    (project,) = projects(root)
    origins = {"git": {"url": "https://git.example.com/torch"}}
    torch = of_project(replace(project, origins=origins), sample_workspace.PIN, ())
    want = f"pkg:generic/torch@{'c' * 40}?vcs_url=git%2Bhttps%3A%2F%2Fgit.example.com%2Ftorch"
    assert torch.purls[1] == want


@pytest.mark.parametrize("key", ["tag", "commit", "version", "wheel"])
def test_a_pin_without_a_key(root: Path, key: str) -> None:
    (project,) = projects(root)
    pin = {name: value for name, value in sample_workspace.PIN.items() if name != key}
    with pytest.raises(UserError, match=re.escape(f"pin.json: key '{key}' is missing")):
        of_project(project, pin, ())


def test_a_source_has_both_hashes(root: Path) -> None:
    (zlib,) = c_sources(root)
    assert (zlib.version, zlib.sha256, zlib.filename) == ("1.2.13", "e" * 64, "zlib-1.2.13.tar.gz")
    assert zlib.source_info == f"Or zlib_1.2.13.orig.tar.gz with sha256 {'d' * 64}"
    assert zlib.purls == (
        f"pkg:generic/zlib@1.2.13?checksum=sha256:{'e' * 64}"
        "&download_url=https%3A%2F%2Fexample.com%2Fzlib-1.2.13.tar.gz",
    )


def test_a_source_without_a_hash(root: Path) -> None:
    file = root / "third_party" / "sources.bzl"
    file.write_text(file.read_text().replace("        sha256 =", "        sha512 ="))
    with pytest.raises(UserError, match="sources.bzl: 'zlib': 'sha256'"):
        list(c_sources(root))


def test_a_source_of_debian_alone(root: Path) -> None:
    file = root / "third_party" / "sources.bzl"
    lines = file.read_text().splitlines(keepends=True)
    remaining = [line for line in lines if "urls =" not in line and "        sha256 =" not in line]
    file.write_text("".join(remaining).replace("strip_prefix", "debian_strip_prefix"))
    (zlib,) = c_sources(root)
    assert (zlib.version, zlib.sha256) == ("1.2.13", "d" * 64)
    assert (zlib.filename, zlib.download) == ("zlib_1.2.13.orig.tar.gz", "")
    assert zlib.purls == (f"pkg:generic/zlib@1.2.13?checksum=sha256:{'d' * 64}",)
    assert zlib.source_info == ""


def test_a_source_with_another_hash(root: Path) -> None:
    file = root / "third_party" / "sources.bzl"
    file.write_text(file.read_text().replace("        sha256 =", "        integrity ="))
    (zlib,) = c_sources(root)
    assert (zlib.sha256, zlib.download) == ("d" * 64, "")


def test_a_source_that_says_its_version(root: Path) -> None:
    file = root / "third_party" / "sources.bzl"
    text = file.read_text().replace('strip_prefix = "zlib-1.2.13"', 'strip_prefix = "zlib-main"')
    file.write_text(text)
    with pytest.raises(UserError, match="'zlib': strip_prefix 'zlib-main' does not end"):
        list(c_sources(root))
    file.write_text(text.replace("        urls =", '        version = "c0ffee",\n        urls ='))
    (zlib,) = c_sources(root)
    assert zlib.version == "c0ffee"


@pytest.mark.parametrize(
    ("folder", "version"),
    [
        ("zlib-1.2.13", "1.2.13"),
        ("Python-3.11.2", "3.11.2"),
        ("sqlite-amalgamation-3400100", "3.40.1"),
        ("make-dfsg-4.3", "4.3"),
        ("openssl-1.1.1w", "1.1.1w"),
    ],
)
def test_versions_in_folders(folder: str, version: str) -> None:
    assert source_version(folder) == version


@pytest.mark.parametrize("folder", ["zlib", "zlib-main", "zlib-12", ""])
def test_folders_without_a_version(folder: str) -> None:
    with pytest.raises(ValueError, match="does not end in '-VERSION'"):
        source_version(folder)


def test_buildifier(root: Path) -> None:
    program = buildifier(root)
    assert program.purls == ("pkg:github/bazelbuild/buildtools@v8.0",)
    assert program.download.endswith("/v8.0/buildifier-linux-amd64")
    (root / "third_party" / "buildifier" / "pin.json").write_text('{"version": "8.0"}')
    with pytest.raises(UserError, match="buildifier/pin.json: key 'sha256' is missing"):
        buildifier(root)
    (root / "third_party" / "buildifier" / "pin.json").write_text("{\n]")
    with pytest.raises(UserError, match=r"buildifier/pin.json:2: .*Correct the line"):
        buildifier(root)


def test_cuda_is_all_its_wheels(root: Path) -> None:
    runtime_first = cuda(root)
    assert (runtime_first.version, runtime_first.sha256) == ("12.9", "8" * 64)
    assert runtime_first.purls == (
        "pkg:pypi/nvidia-cuda-runtime-cu12@12.9.1",
        "pkg:pypi/nvidia-cuda-nvcc-cu12@12.9.1",
    )
    pin = root / "third_party" / "cuda" / "pin.json"
    pin.write_text('{"version": "12.9", "wheels": {"nvcc": {"distribution": "a", "version": "1"}}}')
    with pytest.raises(UserError, match="cuda/pin.json: key 'runtime' is missing"):
        cuda(root)
    pin.write_text('{"version": "12.9", "wheels": []}')
    with pytest.raises(UserError, match="cuda/pin.json: key 'wheels' is missing"):
        cuda(root)


@pytest.mark.parametrize("room", ["cuda", "newer"])
def test_a_variant_differs_from_torchs_own_wheel(root: Path, room: str) -> None:
    (project,) = projects(root)
    torch = of_project(project, sample_workspace.PIN, ("a_b",))
    assert torch_variants(root, torch) == {}
    pin = root / "third_party" / "torch" / room / "pin.json"
    pin.parent.mkdir()
    pin.write_text(json.dumps(sample_workspace.TORCH_CUDA_PIN))
    ((name, variant),) = torch_variants(root, replace(torch, needs=("c", "a_b"))).items()
    assert name == f"torch-{room}"
    assert (variant.version, variant.release, variant.sha256) == ("v1.1", "1.1+cu1", "3" * 64)
    assert variant.purls == ("pkg:pypi/torch@1.1", f"pkg:github/upstream/torch@{'d' * 40}")
    assert (variant.needs, variant.download) == (("c", "a_b"), "")
    assert variant.local_modifications == "patches/torch/v1.1"
    for key in sample_workspace.TORCH_CUDA_PIN.keys() - {"requires"}:
        rest = {k: v for k, v in sample_workspace.TORCH_CUDA_PIN.items() if k != key}
        pin.write_text(json.dumps(rest))
        with pytest.raises(UserError, match=f"torch/{room}/pin.json: key '{key}' is missing"):
            torch_variants(root, torch)


def test_the_newer_wheel_needs_the_packages_of_its_own_lock(root: Path) -> None:
    (project,) = projects(root)
    torch = of_project(project, sample_workspace.PIN, ("c", "a_b"))
    room = root / "third_party" / "torch" / "newer"
    room.mkdir()
    (room / "pin.json").write_text(json.dumps(sample_workspace.TORCH_CUDA_PIN))
    (room / "lock.json").write_text(json.dumps({"packages": {"a_b": {}}}))
    assert torch_variants(root, torch)["torch-newer"].needs == ("c", "torch_newer_a_b")


@pytest.mark.parametrize(
    ("line", "key"),
    [("A.b-c[d]>=1,<2", "a_b_c"), ("  nvidia-nccl-cu13==2", "nvidia_nccl_cu13"), ("# why", "")],
)
def test_keys_of_requirements(line: str, key: str) -> None:
    assert requirement_key(line) == key


def test_the_toolchain_is_all_its_packages(root: Path) -> None:
    toolchain = clang(root)
    assert (toolchain.version, toolchain.filename) == (
        "19.1.7",
        "clang-19_19.1.7-3~deb12u1_amd64.deb",
    )
    assert (toolchain.sha256, toolchain.download) == ("1" * 64, "")
    assert toolchain.purls == (
        f"pkg:deb/debian/clang-19@19.1.7-3~deb12u1?arch=amd64&checksum=sha256:{'1' * 64}",
        f"pkg:deb/debian/libstdc%2B%2B6@12.2.0-14?arch=amd64&checksum=sha256:{'2' * 64}",
    )


def test_a_toolchain_without_a_compiler(root: Path) -> None:
    file = root / "third_party" / "clang" / "packages.bzl"
    text = file.read_text()
    file.write_text(text.replace("/clang-19_", "/clang_"))
    with pytest.raises(UserError, match=r"packages.bzl: no package is a clang-N. See"):
        clang(root)
    file.write_text(text.replace("_LIBRARIES = {}", "_LIBRARIES = 1"))
    with pytest.raises(UserError, match=r"packages.bzl: _LIBRARIES is not a dictionary. See"):
        clang(root)
