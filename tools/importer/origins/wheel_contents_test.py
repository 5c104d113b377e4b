# SPDX-License-Identifier: Apache-2.0
"""Test that torch's wheel_contents.json distinguishes upstream's files from build outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.importer.errors import UserError
from tools.importer.origins.wheel_contents import kind_of, read_contents

_FILE = Path(__file__).absolute().parents[3] / "third_party" / "torch" / "wheel_contents.json"
_MEMBERS = ("torch/__init__.py", "torch/_inductor/kernel/flex/a.py.jinja", "torch/_dynamo/x.json")
_KINDS = {kind_of(path) for path in _MEMBERS}


@pytest.mark.parametrize(
    "path",
    [
        "torch/__init__.py",
        "torch/_C/_monitor.pyi",
        "torch/_vendor/packaging/LICENSE",
        "torchgen/x.py",
    ],
)
def test_upstream_files(path: str) -> None:
    assert read_contents(_FILE).is_upstream(path)


@pytest.mark.parametrize(
    "path",
    [
        "torch/version.py",
        "torch/_C/__init__.pyi",
        "torch/return_types.pyi",
        "torch/nn/functional.pyi",
        "torch/testing/_internal/generated/annotated_fn_args.py",
        "torch/utils/data/datapipes/datapipe.pyi",
        "torch/_C.cpython-311-x86_64-linux-gnu.so",
        "torch/lib/libtorch.so",
        "torch/lib/libgomp.so.1",
        "torch/lib/_utils.py",
        "torch/include/ATen/ATen.h",
        "torch/bin/torch_shm_manager",
        "torchgen/packaged/ATen/native/native_functions.yaml",
        "torch-2.14.1.dist-info/METADATA",
        "numpy/__init__.py",
    ],
)
def test_files_that_the_build_made(path: str) -> None:
    contents = read_contents(_FILE)
    assert not contents.is_upstream(path)
    assert not contents.would_hold(path, _KINDS)


@pytest.mark.parametrize(
    "path",
    [
        "torch/gone.py",
        "torch/new_package/deep/x.py",
        "torch/_export/db/examples/gone.py",
        "torch/_inductor/kernel/templates/gone.py.jinja",
        "torch/_dynamo/gone.json",
        "torch/jit/gone.pyi",
        "functorch/einops/gone.py",
    ],
)
def test_what_would_be_here(path: str) -> None:
    assert read_contents(_FILE).would_hold(path, _KINDS)


@pytest.mark.parametrize(
    "path",
    [
        "test/test_torch.py",
        "setup.py",
        "aten/src/ATen/native/native_functions.yaml",
        "tools/autograd/derivatives.yaml",
        "c10/core/Device.cpp",
        "torch/csrc/Module.cpp",
        "torch/csrc/jit/tensorexpr/codegen_external.py",
        "torch/CMakeLists.txt",
        "torch/README.txt",
        "torch/_inductor/runtime/README.md",
        "torch/library.h",
        "torch/version.py.tpl",
        "torch/_C/__init__.pyi.in",
        "functorch/examples/compilation/eager_fusion.py",
        "torch/distributed/checkpoint/examples/stateful_example.py",
        "torchgen/_autoheuristic/train.py",
    ],
)
def test_what_a_wheel_never_has(path: str) -> None:
    assert not read_contents(_FILE).would_hold(path, _KINDS)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", json.dumps({"roots": 1, "built": [], "left_out": []})]
)
def test_a_bad_file_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "contents.json").write_text(text)
    with pytest.raises(UserError, match=r"contents\.json: .*It needs lists of text under roots"):
        read_contents(tmp_path / "contents.json")
