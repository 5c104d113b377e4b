# SPDX-License-Identifier: Apache-2.0
"""torch's C++ code opens archives at any gfile path, reads parts of them, and writes atomically."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch

from torch_google import gfile

_TEXT = b"what is in the record"


def _write(name: str) -> None:
    writer = torch._C.PyTorchFileWriter(name)
    writer.write_record("record", _TEXT, len(_TEXT))
    assert not gfile.Exists(name)
    writer.write_end_of_file()
    assert gfile.Exists(name)


def test_a_store_keeps_an_archive() -> None:
    _write("memory://archives/model.pt")
    reader = torch._C.PyTorchFileReader("memory://archives/model.pt")
    assert reader.get_record("record") == _TEXT


def test_a_url_of_this_machine_is_its_file(tmp_path: Path) -> None:
    _write(f"file://{tmp_path}/model.pt")
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]
    for name in (f"file://{tmp_path}/model.pt", str(tmp_path / "model.pt")):
        assert torch._C.PyTorchFileReader(name).get_record("record") == _TEXT


def test_torchscript_goes_and_comes() -> None:
    script = torch.jit.script(torch.nn.Linear(3, 2))
    torch.jit.save(script, "memory://archives/script.pt")
    inputs = torch.ones(1, 3)
    assert torch.equal(torch.jit.load("memory://archives/script.pt")(inputs), script(inputs))
    unit = torch._C.CompilationUnit()
    module = torch._C.import_ir_module(unit, "memory://archives/script.pt", None, {}, False)
    assert torch.equal(torch.jit._recursive.wrap_cpp_module(module)(inputs), script(inputs))


def test_packages() -> None:
    name = "memory://archives/package.pt"
    with torch.package.PackageExporter(name) as exporter:
        exporter.save_pickle("data", "tensor.pkl", torch.arange(100_000))
    tensor = torch.package.PackageImporter(name).load_pickle("data", "tensor.pkl")
    assert torch.equal(tensor, torch.arange(100_000))


def test_what_is_not_there_is_named_by_gfile() -> None:
    with pytest.raises(FileNotFoundError, match="memory://archives/none") as caught:
        torch._C.PyTorchFileReader("memory://archives/none")
    assert caught.value.errno == errno.ENOENT
