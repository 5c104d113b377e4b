# SPDX-License-Identifier: Apache-2.0
"""Test torch with gfile's hooks: paths with any scheme, and atomic writes."""

from __future__ import annotations

import importlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from torch._seam import Hook, files

from tools.par.testing.budget import only_full
from torch_google import gfile
from torch_google.gfile.testing.backends import NAMES, Backend, backend
from torch_google.hooks import files as file_hooks

_KILLS = 12
_V2_6 = torch.__version__ < (2, 7)
# Options for a single-process checkpoint; torch v2.6 detects a single process itself.
_ALONE: dict[str, Any] = {} if _V2_6 else {"no_dist": True}
_WRITABLE = [name for name in NAMES if name not in ("zip", "http")]


@pytest.fixture(autouse=True)
def _hooks() -> Iterator[None]:
    hooks = [hook for hook in vars(files).values() if isinstance(hook, Hook)]
    before = [hook._implementation for hook in hooks]
    file_hooks.install()
    assert all(hook.replaced for hook in hooks)
    yield
    for hook, implementation in zip(hooks, before, strict=True):
        hook.install(implementation)


@pytest.fixture(params=_WRITABLE)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    with backend(request.param, tmp_path) as instance:
        yield instance


class _Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


def _same(one: Any, other: Any) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


_STATE = {"a": torch.arange(1000.0), "b": torch.ones(3, 5, dtype=torch.int64), "ä": torch.ones(0)}


# Tests that run on every writable backend.


def test_colons_in_the_name_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(_STATE, "model::v1.pt")
    assert _same(torch.load("model::v1.pt"), _STATE)
    assert _same(torch.load("model::v1.pt", mmap=True), _STATE)
    assert os.listdir() == ["model::v1.pt"]


@pytest.mark.parametrize("new_format", [True, False])
def test_save_and_load(store: Backend, new_format: bool) -> None:
    path = store.path("sub/model.pt")
    for step in range(2):
        torch.save(
            {**_STATE, "step": torch.tensor(step)}, path, _use_new_zipfile_serialization=new_format
        )
        assert _same(torch.load(path), {**_STATE, "step": torch.tensor(step)})
    assert torch.load(gfile.GPath(path))["step"] == 1


def _pickle() -> Any:
    return importlib.import_module("pickle")


def test_save_and_load_by_gpath(store: Backend) -> None:
    path = gfile.GPath(store.path("sub")) / "model.pt"
    torch.save(_STATE, path)
    assert path.name in gfile.ListDir(path.parent)
    assert _same(torch.load(path), _STATE)


def test_an_exception_in_save_leaves_the_older_file(store: Backend) -> None:
    path = store.path("model.pt")
    torch.save(1, path)
    with pytest.raises((AttributeError, TypeError, _pickle().PicklingError)):
        torch.save([torch.ones(10), lambda: None], path)
    assert torch.load(path) == 1
    assert gfile.ListDir(store.path("")) == ["hello.txt", "model.pt", "sub"]


def test_mapping(store: Backend) -> None:
    path = store.path("model.pt")
    torch.save(_STATE, path)
    if gfile.is_remote(path):
        with pytest.raises(ValueError, match=r"cannot be mapped \(mmap=True\).*gfile\.Copy"):
            torch.load(path, mmap=True)
    with gfile.configured(stage_mapped=True):
        loaded = torch.load(path, mmap=True)
    assert _same(loaded, _STATE)


@pytest.mark.skipif(_V2_6, reason="torch.load of v2.6 does not read safetensors")
def test_safetensors(store: Backend) -> None:
    safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    path = store.path("model.safetensors")
    with gfile.Open(path, "wb") as file:
        file.write(safetensors.save(_STATE))
    assert _same(torch.load(path), _STATE)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript(store: Backend) -> None:
    path = store.path("sub/model.pt")
    torch.jit.script(_Doubled()).save(path)
    assert torch.jit.load(path)(torch.ones(1)) == 2
    torch.jit.save(torch.jit.script(_Doubled()), path)
    assert torch.jit.load(path)(torch.ones(1)) == 2
    with pytest.raises((FileNotFoundError, ValueError), match=r"none\.pt"):
        torch.jit.load(store.path("none.pt"))


def test_an_export(store: Backend) -> None:
    path = store.path("sub/model.pt2")
    torch.export.save(torch.export.export(_Doubled(), (torch.ones(1),)), path)
    assert torch.export.load(path).module()(torch.ones(1)) == 2
    assert [name for name in gfile.ListDir(store.path("sub")) if "model" in name] == ["model.pt2"]


@pytest.mark.filterwarnings("ignore")
def test_a_distributed_checkpoint(store: Backend) -> None:
    path = store.path("run")
    for step in range(3):
        state: dict[str, Any] = {"model": {**_STATE}, "step": step}
        dcp.save(state, checkpoint_id=path, **_ALONE)
        loaded = {"model": {key: torch.zeros_like(_STATE[key]) for key in _STATE}, "step": -1}
        dcp.load(loaded, checkpoint_id=path, **_ALONE)
        assert loaded["step"] == step
        assert _same(loaded["model"], _STATE)
    names = gfile.ListDir(path)
    assert names[0] == ".metadata"
    assert len(names) == 2, "the data of older saves must be removed"


@pytest.mark.skipif(_V2_6, reason="v2.6 needs a process group for it")
@pytest.mark.filterwarnings("ignore")
def test_an_asynchronous_checkpoint(store: Backend) -> None:
    state = {"weight": torch.arange(100.0)}
    dcp.async_save(state, checkpoint_id=store.path("run"), **_ALONE).result(60)
    loaded = {"weight": torch.zeros(100)}
    dcp.load(loaded, checkpoint_id=store.path("run"), **_ALONE)
    assert _same(loaded, state)


def test_hub(store: Backend, tmp_path: Path) -> None:
    path = store.path("zoo/model.pt")
    gfile.MakeDirs(store.path("zoo"))
    torch.save(_STATE, path)
    url = path if gfile.is_remote(path) else f"file://{path}"
    models = str(tmp_path / "models")
    loaded = torch.hub.load_state_dict_from_url(url, model_dir=models, progress=False)
    assert _same(loaded, _STATE)


def test_profiles(store: Backend) -> None:
    path = store.path("traces")
    for number in range(2):
        with torch.profiler.profile(
            on_trace_ready=torch.profiler.tensorboard_trace_handler(path, use_gzip=number == 1)
        ):
            torch.ones(3).add(1)
    plain, zipped = sorted(gfile.ListDir(path), key=len)
    assert (plain[-14:], zipped[-3:]) == (".pt.trace.json", ".gz")
    with gfile.Open(store.path(f"traces/{plain}")) as file:
        assert "aten::add" in file.read()


@pytest.mark.filterwarnings("ignore")
def test_a_checkpoint_by_name_where_torch_is_not_patched(store: Backend) -> None:
    files.checkpoint_storages.restore()
    path = store.path("run")
    state = {"weight": torch.arange(100.0)}
    dcp.save(state, storage_writer=gfile.CheckpointWriter(path), **_ALONE)
    loaded = {"weight": torch.zeros(100)}
    dcp.load(loaded, storage_reader=gfile.CheckpointReader(path), **_ALONE)
    assert _same(loaded, state)


@pytest.mark.filterwarnings("ignore")
def test_a_checkpoint_of_two_processes(tmp_path: Path) -> None:
    path = str(tmp_path / "run")
    for step in range(2):
        start = torch.multiprocessing.start_processes
        start(_save_part, (str(tmp_path / f"meet{step}"), path, step), 2, start_method="fork")
    loaded = {f"part{rank}": torch.zeros(10) for rank in range(2)}
    dcp.load(loaded, checkpoint_id=path, **_ALONE)
    assert [tensor[0].item() for tensor in loaded.values()] == [10, 11]
    assert [name[:4] for name in gfile.ListDir(path)] == [".met", "__0_", "__1_"]


def _save_part(rank: int, meet: str, path: str, step: int) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meet}", rank=rank, world_size=2
    )
    state = {f"part{rank}": torch.full((10,), 10.0 * step + rank)}
    dcp.save(state, checkpoint_id=path)
    torch.distributed.destroy_process_group()


# Tests of read-only filesystems.


@pytest.mark.parametrize("name", ["zip", "http"])
def test_load_from_what_is_read_only(name: str, tmp_path: Path) -> None:
    with backend(name, tmp_path) as store:
        path = store.path("sub/a.bin")
        with pytest.raises(_pickle().UnpicklingError):
            torch.load(path)
        with pytest.raises(OSError, match="is read-only"):
            torch.save(1, path)
        with pytest.raises(FileNotFoundError, match=r"none\.pt"):
            torch.load(store.path("none.pt"))


def test_hub_refuses_the_network_unless_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path / "hub"))
    with backend("http", tmp_path) as store:
        torch.save(_STATE, tmp_path / "served" / "model.pt")
        url = store.path("model.pt")
        with pytest.raises(PermissionError, match="TORCH_GOOGLE_NETWORK=1"):
            torch.hub.load_state_dict_from_url(url, progress=False)
        with gfile.configured(network=True):
            assert _same(torch.hub.load_state_dict_from_url(url, progress=False), _STATE)
    with pytest.raises(OSError, match="in a local directory"):
        torch.hub.set_dir("memory://hub")


# Tests that local files work as in upstream torch, except that writes are atomic.


def test_the_bytes_are_upstreams(tmp_path: Path) -> None:
    torch.save(_STATE, tmp_path / "a.pt")
    written = (tmp_path / "a.pt").read_bytes()
    files.writing.restore()
    torch.save(_STATE, tmp_path / "a.pt")
    assert written == (tmp_path / "a.pt").read_bytes()


def test_a_file_url_is_of_this_machine(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/a.pt"
    torch.save(_STATE, url)
    for path in (url, tmp_path / "a.pt"):
        assert _same(torch.load(path, mmap=True), _STATE)


def test_links_and_permissions_stay(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.pt").symlink_to("real/a.pt")
    torch.save(1, tmp_path / "link.pt")
    assert (tmp_path / "link.pt").is_symlink()
    os.chmod(tmp_path / "real" / "a.pt", 0o604)
    torch.save(2, tmp_path / "link.pt")
    assert (tmp_path / "real" / "a.pt").stat().st_mode & 0o777 == 0o604
    assert torch.load(tmp_path / "real" / "a.pt") == 2
    mask = os.umask(0o027)
    try:
        torch.save(3, tmp_path / "new.pt")
    finally:
        os.umask(mask)
    assert (tmp_path / "new.pt").stat().st_mode & 0o777 == 0o640


def test_what_is_no_file_is_opened_as_it_is(tmp_path: Path) -> None:
    torch.save(torch.ones(3), os.devnull)
    torch.save(torch.ones(3), f"file://{os.devnull}")
    with open(tmp_path / "open.pt", "wb+") as file:
        torch.save(torch.ones(3), f"/proc/self/fd/{file.fileno()}")
        assert torch.equal(torch.load(file), torch.ones(3))
    with pytest.raises(RuntimeError, match="Parent directory"):
        torch.save(1, tmp_path / "none" / "a.pt")
    assert os.listdir(tmp_path) == ["open.pt"]


# Tests that kill processes.


def _killed(action: Callable[[int], None], first: int) -> None:
    """At a random time, kill a forked process that calls action(first), action(first + 1), ..."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            step = first
            while True:
                os.write(writing, b".")
                action(step)
                step += 1
        finally:
            os._exit(1)
    os.close(writing)
    assert os.read(reading, 1) == b"."
    time.sleep(random.uniform(0, 0.3))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)


def _state(step: int) -> dict[str, Any]:
    return {f"p{index}": torch.full((1 << 20,), float(step)) for index in range(8)}


def _is_whole(state: dict[str, Any], least: float) -> float:
    values = {value for tensor in state.values() for value in tensor.unique().tolist()}
    assert len(values) == 1, "a mixture of two checkpoints"
    assert max(values) >= least, "older than the checkpoint before the kill"
    return values.pop()


@pytest.mark.full
@pytest.mark.parametrize("by", ["path", *only_full("open file", "store")])
def test_killed_while_saving(tmp_path: Path, by: str) -> None:
    path = str(tmp_path / "model.pt")
    if by == "store":
        system = DirFileSystem(str(tmp_path), LocalFileSystem())
        gfile.register_scheme("kept", system, rename_commits=True, overwrite=True)
        path = "kept://model.pt"

    def save(step: int) -> None:
        if by != "open file":
            torch.save(_state(step), path)
            return
        with gfile.Open(path, "wb") as file:
            torch.save(_state(step), file)

    with gfile.configured(sync=False):
        save(0)
        step = 0.0
        for _ in range(_KILLS):
            _killed(save, int(step) + 1)
            step = _is_whole(torch.load(path), step)
            if by != "store":
                assert len(os.listdir(tmp_path)) <= 2, (
                    "the next writer must reuse the leftovers of a killed one"
                )
        save(int(step) + 1)
    assert gfile.ListDir(path.removesuffix("model.pt")) == ["model.pt"]
    assert by == "store" or os.listdir(tmp_path) == ["model.pt"]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
def test_killed_while_saving_a_distributed_checkpoint(tmp_path: Path) -> None:
    path = str(tmp_path / "run")

    def save(step: int) -> None:
        dcp.save(_state(step), checkpoint_id=path, **_ALONE)

    with gfile.configured(sync=False):
        save(0)
        step = 0.0
        for _ in range(_KILLS):
            _killed(save, int(step) + 1)
            loaded = _state(-1)
            dcp.load(loaded, checkpoint_id=path, **_ALONE)
            step = _is_whole(loaded, step)
    # The next save removes leftovers of killed processes only if they are more than a day old.
    for entry in os.scandir(path):
        os.utime(entry.path, (0, 0))
    save(int(step) + 1)
    assert len(os.listdir(path)) == 2
