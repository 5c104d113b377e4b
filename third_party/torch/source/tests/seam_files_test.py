# SPDX-License-Identifier: Apache-2.0
"""torch's C++ code opens archives through hooks in torch._seam, as torch's Python code does.

These tests store files in a dictionary, under names with the `kept://` scheme.
"""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._seam import files

_TEXT = b"what is in the record"


class _Keeper:
    """A store in which a file becomes visible once it is closed without an error."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.open = 0

    @contextlib.contextmanager
    def reading(self, file: Any, mmap: bool) -> Iterator[Any]:
        assert not mmap
        if file not in self.kept:
            raise FileNotFoundError(f"kept: nothing is called {file}")
        self.open += 1
        try:
            yield io.BytesIO(self.kept[file])
        finally:
            self.open -= 1

    @contextlib.contextmanager
    def writing(self, file: Any) -> Iterator[Any]:
        stream = io.BytesIO()
        yield stream
        self.kept[file] = stream.getvalue()


@pytest.fixture
def keeper() -> Iterator[_Keeper]:
    store = _Keeper()
    files.reading.install(store.reading)
    files.writing.install(store.writing)
    yield store
    files.reading.restore()
    files.writing.restore()


def _write(name: str) -> None:
    writer = torch._C.PyTorchFileWriter(name)
    writer.write_record("record", _TEXT, len(_TEXT))
    writer.write_end_of_file()


def test_an_archive_is_written_and_read_by_a_name_of_any_scheme(keeper: _Keeper) -> None:
    writer = torch._C.PyTorchFileWriter("kept://run/7/model.pt")
    assert writer.archive_name() == "model"
    writer.write_record("record", _TEXT, len(_TEXT))
    assert not keeper.kept
    writer.write_end_of_file()
    assert list(keeper.kept) == ["kept://run/7/model.pt"]
    reader = torch._C.PyTorchFileReader("kept://run/7/model.pt")
    assert reader.get_record("record") == _TEXT
    assert keeper.open == 1
    del reader
    assert keeper.open == 0


def test_a_package_takes_a_name_of_any_scheme(keeper: _Keeper) -> None:
    with torch.package.PackageExporter("kept://a/package.pt") as exporter:
        exporter.save_source_string("of_ours", "NUMBER = 7\n")
        exporter.save_pickle("data", "tensor.pkl", torch.arange(1000))
    importer = torch.package.PackageImporter("kept://a/package.pt")
    assert importer.import_module("of_ours").NUMBER == 7
    assert torch.equal(importer.load_pickle("data", "tensor.pkl"), torch.arange(1000))


def test_torchscript_is_read_by_cpp_alone(keeper: _Keeper) -> None:
    """The C++ functions behind torch.jit, which accept file names, use the hooks."""

    class Double(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + x

    script = torch.jit.script(Double())
    script._c.save("kept://a/script.pt")
    unit = torch._C.CompilationUnit()
    module = torch._C.import_ir_module(unit, "kept://a/script.pt", None, {}, False)
    loaded = torch.jit._recursive.wrap_cpp_module(module)
    assert loaded(torch.ones(2)).tolist() == [2, 2]


def test_room_is_left_in_a_file_that_cannot_seek(keeper: _Keeper) -> None:
    writer = torch._C.PyTorchFileWriter("kept://a/room.pt")
    writer.write_record_metadata("record", 100_000)
    writer.write_end_of_file()
    reader = torch._C.PyTorchFileReader("kept://a/room.pt")
    offset = reader.get_record_offset("record")
    assert keeper.kept["kept://a/room.pt"][offset : offset + 100_000] == bytes(100_000)


def test_a_failure_is_the_boards_own(keeper: _Keeper) -> None:
    with pytest.raises(FileNotFoundError, match="nothing is called kept://a/none"):
        torch._C.PyTorchFileReader("kept://a/none")


def test_a_path_is_a_file_of_this_machine(keeper: _Keeper, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    _write(str(path))
    assert torch._C.PyTorchFileReader(str(path)).get_record("record") == _TEXT
    assert not keeper.kept
    with pytest.raises(RuntimeError, match="Parent directory"):
        torch._C.PyTorchFileWriter(str(tmp_path / "none" / "model.pt"))
    with pytest.raises(RuntimeError, match="No such file"):
        torch._C.PyTorchFileReader(str(tmp_path / "none"))


def test_a_hook_may_return_a_path(tmp_path: Path) -> None:
    """A hook may return a local path, for example for a URL such as `file:///a/b`."""

    def here(file: Any, mmap: bool = False) -> Any:
        del mmap
        return contextlib.nullcontext(file.removeprefix("file://"))

    files.reading.install(here)
    files.writing.install(here)
    try:
        name = f"file://{tmp_path}/model.pt"
        _write(name)
        assert (tmp_path / "model.pt").exists()
        assert torch._C.PyTorchFileReader(name).get_record("record") == _TEXT
    finally:
        files.reading.restore()
        files.writing.restore()


def test_several_threads_read_at_once(keeper: _Keeper) -> None:
    """Several threads, each with its own readers, can read a file at the same time."""
    _write("kept://a/model.pt")
    records: list[bytes] = []

    def read() -> None:
        for _ in range(100):
            records.append(torch._C.PyTorchFileReader("kept://a/model.pt").get_record("record"))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert records == [_TEXT] * 400
    assert keeper.open == 0
