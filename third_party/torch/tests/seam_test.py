# SPDX-License-Identifier: Apache-2.0
"""`torch._utils_internal` returns upstream's paths, or queries the loader of a packed torch."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
import torch._utils_internal as seam
import torch._utils_internal_upstream as upstream


class _PackedLoader:
    """A fake PAR loader. Only the loader can provide the paths of native files."""

    asked: list[str]

    def __init__(self) -> None:
        self.asked = []

    def native_path(self, relative: str) -> str:
        self.asked.append(relative)
        return f"/cache/{relative}"


@pytest.fixture(name="packed")
def _packed(monkeypatch: pytest.MonkeyPatch) -> _PackedLoader:
    loader = _PackedLoader()
    monkeypatch.setattr(seam, "_loader", loader)
    return loader


def _public(module: ModuleType) -> set[str]:
    return {name for name in vars(module) if not name.startswith("_")}


def test_every_name_of_upstream_is_there() -> None:
    assert _public(upstream) <= _public(seam)


def test_only_the_stated_names_differ_from_upstream() -> None:
    changed = {
        name for name in _public(upstream) if getattr(seam, name) is not getattr(upstream, name)
    }
    assert changed == {
        "get_file_path",
        "justknobs_check",
        "justknobs_getval_int",
        "USE_GLOBAL_DEPS",
    }


def test_global_deps_are_not_loaded() -> None:
    assert seam.USE_GLOBAL_DEPS is False
    with open("/proc/self/maps", encoding="utf-8") as maps:
        assert "libtorch_global_deps" not in maps.read()


def test_native_files_are_files() -> None:
    assert os.path.isfile(seam.get_file_path("torch", "lib", "libtorch_cpu.so"))
    assert os.access(seam.get_file_path("torch", "bin", "torch_shm_manager"), os.X_OK)
    assert os.path.isfile(seam.get_file_path("torch", "include", "c10", "macros", "Macros.h"))


def test_packed_paths_come_from_the_loader(packed: _PackedLoader) -> None:
    assert seam.get_file_path("torch", "include") == "/cache/torch/include"
    assert seam.get_file_path("torch/lib") == "/cache/torch/lib"
    assert packed.asked == ["torch/include", "torch/lib"]


def test_naming_the_directory_unpacks_nothing(packed: _PackedLoader) -> None:
    assert seam.get_file_path("torch") == os.path.dirname(torch.__file__)
    assert packed.asked == []


def test_paths_on_disk_are_upstreams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seam, "_loader", SimpleNamespace())
    assert seam.get_file_path("torch", "lib") == upstream.get_file_path("torch", "lib")


def test_paths_are_of_this_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The returned paths are in this installation, although torch v2.14 may search another one."""
    monkeypatch.setattr(seam, "_loader", SimpleNamespace())
    monkeypatch.setattr(upstream, "torch_parent", "/of/another/installation")
    root = os.path.dirname(torch.__file__)
    assert seam.get_file_path("torch") == root
    assert seam.get_file_path("torch", "lib") == os.path.join(root, "lib")


def test_resources_are_read() -> None:
    root = os.path.dirname(torch.__file__)
    with seam.open_resource(os.path.join(root, "_dynamo", "graph_break_registry.json")) as file:
        assert file.read(1) == "{"


def test_a_missing_resource_is_an_error() -> None:
    with pytest.raises(OSError, match="nothing.json"):
        seam.open_resource(os.path.join(os.path.dirname(torch.__file__), "nothing.json"))


def test_a_module_that_is_no_file_is_read_by_its_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("packed")
    module.__file__ = "/nowhere/program.par/packed.py"
    loader = SimpleNamespace(get_data=lambda path: path.encode("ascii"))
    module.__spec__ = ModuleSpec("packed", loader)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "packed", module)
    assert seam.read_file(module.__file__) == b"/nowhere/program.par/packed.py"
    assert seam.read_file(torch.__file__) == torch.__spec__.loader.get_data(torch.__file__)


def test_module_files_are_those_of_the_modules() -> None:
    files = dict(seam.module_files(torch._higher_order_ops.__path__))
    assert files["cond"] == sys.modules["torch._higher_order_ops.cond"].__file__
    assert "__init__" not in files


def test_module_files_leaves_packages_out() -> None:
    names = [name for name, _ in seam.module_files(torch._inductor.__path__)]
    assert "codecache" in names
    assert "codegen" not in names


def test_the_native_module_is_no_package() -> None:
    import pkgutil

    packages = {info.name: info.ispkg for info in pkgutil.iter_modules(torch.__path__)}
    assert packages.get("_C") is not True


def test_source_hash_is_a_stamp() -> None:
    stamp = seam.source_hash()
    assert len(bytes.fromhex(stamp.decode("ascii"))) == 32


def test_upstream_does_not_name_this_project() -> None:
    sources = [Path(str(file)) for _, file in seam.module_files(torch.__path__)]
    loader = torch.__spec__.loader
    for source in sources:
        if source.suffix == ".py" and source.stem != "_C":
            assert b"import torch_google" not in loader.get_data(str(source)), source
