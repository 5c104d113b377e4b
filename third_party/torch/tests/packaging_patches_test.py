# SPDX-License-Identifier: Apache-2.0
"""torch works in a PAR. Each packaging patch has a test that fails in a PAR without the patch.

The same tests also run with torch on disk, to check that the patches keep upstream's behavior.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import inspect
import io
import logging
import operator
import os
import subprocess
import sys
import types
import zipfile
from pathlib import Path
from unittest import mock

import pytest
import torch
import torch._utils_internal as seam

_PROCESS_SECONDS = 300


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


class _Affine(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * 2 + 1


@pytest.fixture(autouse=True)
def _own_compile_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    torch._dynamo.reset()


def test_compile_with_the_eager_backend() -> None:
    from torch._dynamo.backends import registry

    registry._lazy_import.cache_clear()
    compiled = torch.compile(_Affine(), backend="eager", fullgraph=True)
    assert compiled(torch.tensor([-1.0, 2.0])).tolist() == [1.0, 5.0]
    assert {"eager", "aot_eager", "inductor"} <= set(torch._dynamo.list_backends(()))


def test_graph_break_finds_its_registry() -> None:
    from torch._dynamo import exc

    def breaks(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x + 1

    logger, handler = logging.getLogger("torch._dynamo.exc"), _Kept()
    handler.setLevel(logging.ERROR)
    logger.addHandler(handler)
    exc._load_gb_type_to_gb_id_map.cache_clear()
    try:
        with pytest.raises(exc.Unsupported) as raised:
            torch.compile(breaks, backend="eager", fullgraph=True)(torch.ones(2))
    finally:
        logger.removeHandler(handler)
    assert handler.messages == []
    assert "For more details about this graph break" in str(raised.value)


@pytest.mark.full
def test_importing_dynamo_writes_nothing(tmp_path: Path) -> None:
    """Importing Dynamo, as every optimizer does, must not create a compile cache directory."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    del environment["TORCHINDUCTOR_CACHE_DIR"]
    program = "import os, torch._dynamo; print('TORCHINDUCTOR_CACHE_DIR' in os.environ)"
    answer = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=_PROCESS_SECONDS,
    )
    assert answer.stdout == "False\n"
    assert not list(tmp_path.glob("torchinductor_*"))


def test_kernel_template_is_read() -> None:
    from torch._inductor.kernel.mm_common import load_kernel_template

    assert "tl.dot(" in load_kernel_template("triton_mm")


def test_torch_key_is_the_source_stamp() -> None:
    from torch._inductor.codecache import torch_key

    torch_key.clear()
    with mock.patch.object(seam, "source_hash", return_value=b"another build"):
        assert torch_key() == b"another build"
    torch_key.clear()
    assert torch_key() == seam.source_hash()


@pytest.mark.parametrize("name", ["torch._inductor.custom_graph_pass", "numpy"])
def test_files_of_passes_are_hashed(name: str) -> None:
    from torch._inductor.custom_graph_pass import get_hash_for_files

    module = importlib.import_module(name)
    source = inspect.getsource(module).encode("utf-8")
    assert module.__file__
    assert (
        get_hash_for_files((module.__file__,), "more") == hashlib.sha256(b"more" + source).digest()
    )
    with pytest.raises(OSError, match="nothing.py"):
        get_hash_for_files((f"{os.path.dirname(module.__file__)}/nothing.py",))


@pytest.mark.full
def test_compile_workers_start() -> None:
    from torch._inductor.compile_worker.subproc_pool import SubprocPool

    pool = SubprocPool(1)
    try:
        assert pool.submit(operator.add, 1, 2).result(_PROCESS_SECONDS) == 3
    finally:
        pool.shutdown()


@pytest.mark.full
def test_tuning_process_starts() -> None:
    from torch._inductor.autotune_process import TuningProcess

    process = TuningProcess(device=None)
    try:
        process.put(os.getpid)
        assert process.get(timeout=_PROCESS_SECONDS) == process.process.pid
    finally:
        process.shutdown()


@pytest.mark.full
@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() == "DEFAULT",
    reason="this CPU has no vector instructions that torch knows",
)
def test_vector_isa_is_found() -> None:
    from torch._inductor import cpu_vec_isa

    cpu_vec_isa.valid_vec_isa_list.cache_clear()
    libraries = cpu_vec_isa.VecISA._build_probe_env()["LD_LIBRARY_PATH"].split(os.pathsep)
    assert os.path.isfile(os.path.join(libraries[0], "libtorch_cpu.so"))
    assert cpu_vec_isa.pick_vec_isa() != cpu_vec_isa.invalid_vec_isa


@pytest.mark.full
def test_aoti_compiles_and_runs(tmp_path: Path) -> None:
    example = torch.linspace(-1, 1, 8)
    program = torch.export.export(_Affine(), (example,))
    package = torch._inductor.aoti_compile_and_package(
        program, package_path=str(tmp_path / "affine.pt2")
    )
    torch.testing.assert_close(
        torch._inductor.aoti_load_package(package)(example), _Affine()(example)
    )


@pytest.mark.full
def test_aoti_packages_sources(tmp_path: Path) -> None:
    program = torch.export.export(_Affine(), (torch.ones(8),))
    package = torch._inductor.aoti_compile_and_package(
        program,
        package_path=str(tmp_path / "affine.pt2"),
        inductor_configs={
            "aot_inductor.dynamic_linkage": False,
            "aot_inductor.link_libtorch": True,
            "aot_inductor.model_name_for_generated_files": "affine",
            "aot_inductor.package_cpp_only": True,
        },
    )
    with zipfile.ZipFile(package) as archive:
        (header,) = [name for name in archive.namelist() if name.endswith("affine.h")]
        assert b"AOTInductorModelaffine" in archive.read(header)
        assert [name for name in archive.namelist() if name.endswith("/script.ld")]


def test_out_of_tree_shim_header_is_included(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu

    def in_tmp_path(*parts: str) -> str:
        return str(tmp_path.joinpath(*parts))

    header = Path("torch/csrc/inductor/aoti_torch/generated/extend/c_shim_own.h")
    path = tmp_path / "torch" / "include" / header
    path.parent.mkdir(parents=True)
    path.touch()
    monkeypatch.setattr(seam, "get_file_path", in_tmp_path)
    wrapper = mock.Mock(included_devices=set(), device="own")
    CppWrapperCpu.add_device_include(wrapper, "own")
    wrapper.header.splice.assert_called_once_with(f"#include <{header}>")


@pytest.mark.full
def test_cpp_extension_paths(tmp_path: Path) -> None:
    from torch.utils import cpp_extension

    source = tmp_path / "name.cpp"
    source.write_text(
        "#include <c10/core/ScalarType.h>\n"
        'extern "C" const char* name() { return c10::toString(c10::ScalarType::Half); }\n'
    )
    library = tmp_path / "libname.so"
    includes = [f"-I{path}" for path in cpp_extension.include_paths()]
    link = [f"-L{path}" for path in cpp_extension.library_paths()] + ["-lc10"]
    command = ["g++", "-std=c++20", "-shared", "-fPIC", *includes, str(source), *link]
    subprocess.run([*command, "-o", str(library)], check=True)
    name = ctypes.CDLL(str(library)).name
    name.restype = ctypes.c_char_p
    assert name() == b"Half"


def test_precompiled_header_is_beside_the_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.utils import cpp_extension

    header = tmp_path / "torch" / "include" / "torch" / "extension.h"
    header.parent.mkdir(parents=True)
    header.write_text("inline int answer() { return 42; }\n")
    monkeypatch.setattr(seam, "get_file_path", lambda *parts: str(tmp_path.joinpath(*parts)))
    monkeypatch.delenv("CXX", raising=False)
    cpp_extension._check_and_build_extension_h_precompiler_headers([], [])
    outputs = {header.with_name("extension.h.gch"), header.with_name("extension.h.sign")}
    assert set(header.parent.iterdir()) == {header, *outputs}
    cpp_extension.remove_extension_h_precompiler_headers()
    assert list(header.parent.iterdir()) == [header]


def test_export_examples_are_found() -> None:
    from torch._export.db.examples import all_examples

    assert len(all_examples()) > 30


def test_operator_files_are_uninteresting() -> None:
    from torch.fx.experimental.symbolic_shapes import uninteresting_files

    operators = sys.modules["torch._higher_order_ops.while_loop"]
    package = sys.modules["torch._higher_order_ops"]
    assert {inspect.getfile(operators), inspect.getfile(package)} <= uninteresting_files()


def test_benchmark_templates_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils.benchmark.utils import cpp_jit

    class _Read(Exception):
        pass

    def instead_of_a_compiler(*, stmt: str, src: str, **_: object) -> None:
        raise _Read(src.replace("// STMT_TEMPLATE_LOCATION", stmt))

    monkeypatch.setattr(cpp_jit, "_compile_template", instead_of_a_compiler)
    for compile_template in (cpp_jit.compile_timeit_template, cpp_jit.compile_callgrind_template):
        with pytest.raises(_Read, match="int the_statement;"):
            compile_template(stmt="int the_statement;", setup="", global_setup="")


def test_package_with_a_mocked_module() -> None:
    archive = io.BytesIO()
    with torch.package.PackageExporter(archive) as exporter:
        exporter.mock("pytest")
        exporter.save_source_string("program", "import pytest\nanswer = 42\n")
    archive.seek(0)
    program: types.ModuleType = torch.package.PackageImporter(archive).import_module("program")
    assert program.answer == 42
    with pytest.raises(NotImplementedError, match="mocked out"):
        program.pytest.fail()
