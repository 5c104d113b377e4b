# SPDX-License-Identifier: Apache-2.0
"""torch's Python code opens files through hooks in torch._seam.

By default, the hooks behave like upstream. These tests store files in a dictionary, under names
with the `kept://` scheme.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import pickle
import tempfile
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch._seam import Hook, files

_HOOKS = {name: hook for name, hook in vars(files).items() if isinstance(hook, Hook)}


class _Keeper:
    """An in-memory file store that implements every hook."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.directories: list[str] = []

    def has(self, file: object) -> bool:
        return isinstance(file, (str, os.PathLike)) and os.fspath(file).startswith("kept:")

    @contextlib.contextmanager
    def reading(self, file: Any, mmap: bool) -> Iterator[Any]:
        if self.has(file) and mmap:
            raise ValueError("kept: cannot be mapped")
        yield io.BytesIO(self.kept[file]) if self.has(file) else file

    @contextlib.contextmanager
    def writing(self, file: Any) -> Iterator[Any]:
        if not self.has(file):
            yield file
            return
        stream = io.BytesIO()
        yield stream
        self.kept[file] = stream.getvalue()

    @contextlib.contextmanager
    def reading_by_name(self, path: Any) -> Iterator[Any]:
        with tempfile.TemporaryDirectory() as directory:
            copy = Path(directory, os.path.basename(path))
            if self.has(path):
                copy.write_bytes(self.kept[path])
            yield str(copy) if self.has(path) else path

    @contextlib.contextmanager
    def writing_by_name(self, path: Any) -> Iterator[Any]:
        with tempfile.TemporaryDirectory() as directory:
            copy = Path(directory, os.path.basename(path))
            yield str(copy) if self.has(path) else path
            if self.has(path):
                self.kept[path] = copy.read_bytes()

    def contents(self, file: Any) -> Any:
        return io.BytesIO(self.kept[file]) if self.has(file) else file

    def make_directory(self, path: str) -> None:
        self.directories.append(path)

    def directory_here(self, path: str) -> str:
        if self.has(path):
            raise ValueError("kept: is no directory of this machine")
        return path

    def checkpoint_storages(self, storages: list[type], reader: bool) -> list[type]:
        return [*storages[:1], _KeptReader if reader else _KeptWriter]

    def open_url(self, url: urllib.request.Request | str, *args: Any, **kwargs: Any) -> Any:
        name = url if isinstance(url, str) else url.full_url
        if not self.has(name):
            raise PermissionError(f"{name}: no network")
        return _Answer(self.kept[name])


class _Answer(io.BytesIO):
    def info(self) -> Any:
        return _Headers()


class _Headers:
    def get_all(self, name: str) -> None:
        return None


class _KeptWriter(dcp.FileSystemWriter):
    root = ""

    def __init__(self, path: str) -> None:
        super().__init__(os.path.join(self.root, path.removeprefix("kept://")))

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        super().reset()

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return str(checkpoint_id).startswith("kept:")


class _KeptReader(dcp.FileSystemReader):
    def __init__(self, path: str) -> None:
        super().__init__(os.path.join(_KeptWriter.root, path.removeprefix("kept://")))

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        super().reset()

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return str(checkpoint_id).startswith("kept:")


class _Path(os.PathLike[str]):
    def __fspath__(self) -> str:
        return "kept://a"


class _Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


@pytest.fixture(autouse=True)
def _upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore the hooks' defaults for a test, and check that it writes no file named `kept:*`."""
    monkeypatch.chdir(tmp_path)
    before = {name: hook._implementation for name, hook in _HOOKS.items()}
    for hook in _HOOKS.values():
        hook.restore()
    try:
        yield
        assert not list(tmp_path.glob("kept:*"))
    finally:
        for name, implementation in before.items():
            _HOOKS[name].install(implementation)


@pytest.fixture
def keeper() -> _Keeper:
    """Create a store, install its methods as the hooks' implementations, and return it."""
    store = _Keeper()
    for name, hook in _HOOKS.items():
        hook.install(getattr(store, name))
    return store


def test_every_hook_is_answered_here() -> None:
    assert set(_HOOKS) == {name for name in vars(_Keeper) if not name.startswith("_")} - {"has"}


@pytest.mark.parametrize("new_format", [True, False])
@pytest.mark.parametrize("path", ["kept://a", _Path()])
def test_save_and_load_take_a_path_of_any_scheme(
    keeper: _Keeper, path: Any, new_format: bool
) -> None:
    state = {"weight": torch.arange(3.0), "step": 7}
    torch.save(state, path, _use_new_zipfile_serialization=new_format)
    assert list(keeper.kept) == ["kept://a"]
    loaded = torch.load("kept://a")
    assert loaded["step"] == 7
    assert torch.equal(loaded["weight"], state["weight"])


def test_a_save_that_fails_keeps_the_older_file(keeper: _Keeper) -> None:
    torch.save(1, "kept://a")
    with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
        torch.save(lambda: None, "kept://a")
    assert torch.load("kept://a") == 1


def test_mapping_a_remote_file_names_the_scheme(keeper: _Keeper) -> None:
    torch.save(torch.ones(3), "kept://a")
    with pytest.raises(ValueError, match="kept: cannot be mapped"):
        torch.load("kept://a", mmap=True)


def test_load_takes_a_safetensors_path_of_any_scheme(keeper: _Keeper) -> None:
    safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    keeper.kept["kept://a.safetensors"] = safetensors.save({"weight": torch.arange(3.0)})
    loaded = torch.load("kept://a.safetensors")
    assert torch.equal(loaded["weight"], torch.arange(3.0))


def test_torchscript_takes_a_path_of_any_scheme(keeper: _Keeper) -> None:
    scripted = torch.jit.script(_Doubled())
    torch.jit.save(scripted, "kept://a.pt", _extra_files={"note": b"n"})
    scripted.save("kept://b.pt")
    for name in ("kept://a.pt", "kept://b.pt"):
        assert torch.jit.load(name)(torch.ones(1)).item() == 2
    extra: dict[str, Any] = {"note": ""}
    torch.jit.load("kept://a.pt", _extra_files=extra)
    assert extra["note"] == b"n"


def test_exports_take_a_path_of_any_scheme(keeper: _Keeper) -> None:
    exported = torch.export.export(_Doubled(), (torch.ones(1),))
    torch.export.save(exported, "kept://a.pt2", extra_files={"note": "n"})
    extra = {"note": ""}
    loaded = torch.export.load("kept://a.pt2", extra_files=extra)
    assert loaded.module()(torch.ones(1)).item() == 2
    assert extra["note"] == "n"
    assert list(keeper.kept) == ["kept://a.pt2"]


@pytest.mark.filterwarnings("ignore")
def test_a_bare_checkpoint_id_of_any_scheme(
    keeper: _Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_KeptWriter, "root", str(tmp_path / "storage"))
    dcp.save({"weight": torch.arange(4.0)}, checkpoint_id="kept://run/1", no_dist=True)
    assert (tmp_path / "storage" / "run" / "1" / ".metadata").exists()
    state = {"weight": torch.zeros(4)}
    dcp.load(state, checkpoint_id="kept://run/1", no_dist=True)
    assert torch.equal(state["weight"], torch.arange(4.0))


def test_hub_loads_from_any_scheme(keeper: _Keeper, tmp_path: Path) -> None:
    torch.save({"weight": torch.ones(2)}, "kept://zoo/model.pt")
    loaded = torch.hub.load_state_dict_from_url(
        "kept://zoo/model.pt", model_dir=str(tmp_path / "models"), progress=False
    )
    assert torch.equal(loaded["weight"], torch.ones(2))
    assert (tmp_path / "models" / "model.pt").exists()


def test_hub_refuses_the_network(
    keeper: _Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    hub = cast(Any, torch.hub)
    for action in (
        partial(hub.load_state_dict_from_url, "https://example.org/model.pt"),
        partial(hub.list, "owner/repository:main", trust_repo=True),
    ):
        with pytest.raises(PermissionError, match="no network"):
            action()


def test_hub_keeps_files_on_this_machine(keeper: _Keeper) -> None:
    hub = cast(Any, torch.hub)
    for action in (
        partial(hub.set_dir, "kept://hub"),
        partial(hub.load_state_dict_from_url, "kept://model.pt", model_dir="kept://hub"),
    ):
        with pytest.raises(ValueError, match="no directory of this machine"):
            action()


def _profiled(profiler: Any) -> Any:
    with profiler:
        torch.ones(3).add(1)
    return profiler


def test_profiles_go_to_any_scheme(keeper: _Keeper) -> None:
    profiler = _profiled(torch.profiler.profile(with_stack=True))
    profiler.export_stacks(path="kept://stacks.txt")
    profiler.export_chrome_trace("kept://trace.json.gz")
    _profiled(torch.profiler.profile()).export_chrome_trace("kept://trace.json")
    old = _profiled(torch.autograd.profiler.profile())
    old.function_events.export_chrome_trace("kept://events.json")
    old.export_chrome_trace("kept://old.json")
    assert "kept://stacks.txt" in keeper.kept
    assert b"aten::add" in gzip.decompress(keeper.kept["kept://trace.json.gz"])
    for name in ("trace", "events", "old"):
        assert b"aten::add" in keeper.kept[f"kept://{name}.json"]


@pytest.mark.filterwarnings("ignore:.*export_memory_timeline")
def test_memory_timelines_go_to_any_scheme(keeper: _Keeper) -> None:
    profiler = _profiled(
        torch.profiler.profile(profile_memory=True, with_stack=True, record_shapes=True)
    )
    profiler.export_memory_timeline("kept://memory.json.gz", device="cpu")
    assert gzip.decompress(keeper.kept["kept://memory.json.gz"])[:1] == b"["


def test_tensorboard_traces_go_to_any_scheme(keeper: _Keeper) -> None:
    with torch.profiler.profile(
        on_trace_ready=torch.profiler.tensorboard_trace_handler("kept://traces", "worker")
    ):
        torch.ones(3).add(1)
    assert keeper.directories == ["kept://traces"]
    (name,) = keeper.kept
    assert name.startswith("kept://traces/worker.")
    assert name.endswith(".pt.trace.json")


@pytest.mark.parametrize("installed", [False, True])
def test_files_of_this_machine_are_as_ever(
    installed: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if installed:
        request.getfixturevalue("keeper")
    torch.save(torch.arange(3), "a.pt")
    with open("b.pt", "wb") as file:
        torch.save(torch.arange(3), file)
    for name in ("a.pt", "b.pt", tmp_path / "a.pt"):
        assert torch.equal(torch.load(name), torch.arange(3))
    assert torch.equal(torch.load("a.pt", mmap=True), torch.arange(3))
    with pytest.raises(RuntimeError, match="Parent directory none does not exist"):
        torch.save(1, "none/a.pt")
    with pytest.raises(FileNotFoundError):
        torch.load("none.pt")
    with pytest.raises(ValueError, match="none.pt does not exist"):
        torch.jit.load("none.pt")
    with torch.profiler.profile() as profiler:
        torch.ones(3).add(1)
    profiler.export_chrome_trace("trace.json")
    assert "aten::add" in Path("trace.json").read_text()
