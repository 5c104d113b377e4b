# SPDX-License-Identifier: Apache-2.0
"""Test the extension points that let torch work in a PAR without a patch.

Each extension point has a test here. Like the tests of the patches, each test runs both in a PAR
and on unpacked files. `torch._utils_internal` is the seam, a module that the build adds to torch
without a patch.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch._utils_internal as seam


@pytest.fixture(autouse=True)
def _own_compile_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))


def _program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_inductor_compiles_with_the_headers_of_the_seam() -> None:
    """Include paths come from `_utils_internal`, not from `cpp_builder._TORCH_PATH`.

    Only upstream's remote builds read `_TORCH_PATH`.
    """
    from torch._inductor import cpp_builder

    directories = cpp_builder.CppTorchOptions().get_include_dirs()
    assert seam.get_file_path("torch", "include") in directories
    header = "torch/csrc/inductor/cpp_prefix.h"
    assert [directory for directory in directories if os.path.isfile(f"{directory}/{header}")]
    users = [
        name
        for name, function in inspect.getmembers(cpp_builder.CppBuilder, inspect.isfunction)
        if {"_TORCH_PATH", "_LINKER_SCRIPT"} & set(function.__code__.co_names)
    ]
    assert users == ["build_fbcode_re"]


def test_sources_are_named_py() -> None:
    """Dynamo removes `__init__.py` from a package's file name to get the package's directory."""
    from torch._dynamo import trace_rules

    specs = [m.__spec__ for name, m in list(sys.modules.items()) if name.split(".")[0] == "torch"]
    packages = [spec for spec in specs if spec and spec.submodule_search_locations]
    files = [package.origin for package in packages if package.origin]
    assert len(files) > 50
    assert not [file for file in files if not file.endswith(f"{os.sep}__init__.py")]
    assert trace_rules._module_dir(torch) == os.path.dirname(torch.__file__) + os.sep


def test_dynamo_skips_its_own_code_and_no_other() -> None:
    """Dynamo's skip rules match, because `co_filename` equals the module's `__file__`."""
    from torch._dynamo import eval_frame, trace_rules

    def skipped(function: Callable[..., object]) -> bool:
        return trace_rules.check_file(function.__code__.co_filename).skipped

    assert eval_frame.optimize.__code__.co_filename == eval_frame.__file__
    assert skipped(eval_frame.optimize)
    assert skipped(inspect.getfile)
    assert not skipped(test_sources_are_named_py)


def test_the_shared_memory_manager_starts() -> None:
    """`import torch` passes the manager's path to `torch._C`, which starts the manager."""
    storage = torch.arange(4.0).untyped_storage()
    manager, handle, size = storage._share_filename_cpu_()
    assert os.path.exists(manager)
    shared = torch.UntypedStorage._new_shared_filename_cpu(manager, handle, size)
    shared[0] = 7
    assert storage[0] == 7


def test_entry_points_are_found() -> None:
    """Backends, rendezvous handlers and log specifications are found in distribution metadata."""
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs

    assert run._get_logs_specs_class("default") is DefaultLogsSpecs
    with pytest.raises(ValueError, match="Could not find entrypoint"):
        run._get_logs_specs_class("nobody's")


def test_the_path_of_ptxas_is_the_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._inductor.runtime import compile_tasks

    inductor = tmp_path / "torch" / "_inductor"
    # torch v2.13 looks for bin/ptxas in torch/_inductor, and v2.14 looks in torch.
    beside = [_program(root / "bin" / "ptxas", "exit 0") for root in (inductor, inductor.parent)]
    monkeypatch.setattr(compile_tasks, "__file__", str(inductor / "runtime" / "compile_tasks.py"))
    set_path = compile_tasks._set_triton_ptxas_path.__wrapped__
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/own/ptxas")
    set_path()
    assert os.environ["TRITON_PTXAS_PATH"] == "/own/ptxas"
    monkeypatch.delenv("TRITON_PTXAS_PATH")
    set_path()
    assert os.environ["TRITON_PTXAS_PATH"] in map(str, beside), (
        "without the variable, torch must use an existing ptxas"
    )


def test_cutlass_is_where_the_configuration_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._inductor import config
    from torch._inductor.codegen.cutlass import utils

    for name in ("cutlass_cppgen", "pycute", "cutlass_library"):
        (tmp_path / "python" / name).mkdir(parents=True)
        (tmp_path / "python" / name / "__init__.py").touch()
    for name in ("generator", "library", "manifest"):
        (tmp_path / "python" / "cutlass_library" / f"{name}.py").touch()
    monkeypatch.setattr(sys, "path", list(sys.path))
    try_import = utils.try_import_cutlass.__wrapped__
    try:
        assert not try_import()
        with config.patch({"cutlass.cutlass_dir": str(tmp_path)}):
            assert try_import()
    finally:
        for name in [n for n in sys.modules if n.split(".")[0] in os.listdir(tmp_path / "python")]:
            del sys.modules[name]


def test_python_path_of_helpers_is_what_one_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """TORCH_CUSTOM_PYTHONPATH replaces the PYTHONPATH that torch passes to helper processes."""
    from torch._inductor.utils import python_subprocess_env

    monkeypatch.syspath_prepend("/of/this/process")
    assert "/of/this/process" in python_subprocess_env()["PYTHONPATH"]
    monkeypatch.setenv("TORCH_CUSTOM_PYTHONPATH", sys.executable)
    assert python_subprocess_env()["PYTHONPATH"] == sys.executable


def test_the_compiler_is_the_configurations(tmp_path: Path) -> None:
    from torch._inductor import config, cpp_builder

    own = _program(tmp_path / "own-c++", f'echo used >> {tmp_path}/log\nexec g++ "$@"')
    with config.patch({"cpp.cxx": (str(own),)}):
        assert cpp_builder.get_cpp_compiler() == str(own)
        assert _answer(cpp_builder.CppTorchOptions(compiler=str(own)), tmp_path) == 42
    assert (tmp_path / "log").read_text().startswith("used\n")


@pytest.mark.parametrize("link", [True, False])
def test_kernels_need_not_link_torch(tmp_path: Path, link: bool) -> None:
    """A kernel for a static program need not link libtorch: the program exports the symbols."""
    from torch._inductor import config, cpp_builder

    with config.patch({"aot_inductor.link_libtorch": link}):
        options = cpp_builder.CppTorchOptions()
        assert {"torch", "torch_cpu", "torch_python"} <= set(options.get_libraries()) or not link
        assert link or not [name for name in options.get_libraries() if "torch" in name]
        assert _answer(options, tmp_path) == 42


def _answer(options: object, directory: Path) -> int:
    """Compile and link a function with Inductor's options, and return the function's result."""
    from torch._inductor.cpp_builder import CppBuilder

    source = directory / "answer.cpp"
    source.write_text('extern "C" int answer() { return 42; }\n')
    builder = CppBuilder("answer", str(source), options, str(directory))
    builder.build()
    return int(ctypes.CDLL(builder.get_target_file_path()).answer())


def test_torch_load_trusts_nobody(tmp_path: Path) -> None:
    """torch.load would default to weights_only=False if `torch.version` lacked `git_version`."""
    from torch import serialization

    assert len(bytes.fromhex(torch.version.git_version)) == 20
    assert serialization._default_to_weights_only(None)
    torch.save({"callable": os.getpid}, tmp_path / "code.pt")
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(tmp_path / "code.pt")


def test_no_toolkit_is_the_string_none() -> None:
    """The version of an absent toolkit (such as CUDA) is None, as in wheels.

    Upstream's Bazel rules in v2.6.0 write the string 'None' instead.
    """
    for version in (torch.version.cuda, torch.version.hip, torch.version.xpu):
        assert version is None or version[0].isdigit()


def test_the_list_of_slow_tests_is_where_the_seam_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.testing._internal import common_utils

    monkeypatch.setattr(common_utils, "IS_SANDCASTLE", True)
    # A missing list of slow tests is not an error.
    assert common_utils.resolve_sandcastle_slow_tests_file() == ""
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "slow_tests.json").write_text("{}")
    monkeypatch.setattr(seam, "get_file_path", lambda *parts: str(tmp_path.joinpath(*parts)))
    path = common_utils.resolve_sandcastle_slow_tests_file()
    assert path == str(tmp_path / "test" / "slow_tests.json")
