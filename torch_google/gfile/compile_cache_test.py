# SPDX-License-Identifier: Apache-2.0
"""Test files that torch itself writes through gfile: compile caches, debug output and events."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor import remote_cache

from torch_google import gfile
from torch_google.gfile.compile_cache import Backend
from torch_google.gfile.testing.backends import Flaky

_SECONDS = 300
# The program contains only a matmul, so Inductor calls a library and needs no C++ compiler.
_PROGRAM = """
import json, sys
from torch_google import gfile
gfile.set_compile_cache(sys.argv[1])
import torch
from torch._dynamo.utils import counters
def product(x, y):
    return torch.mm(x, y)
result = torch.compile(product)(torch.eye(4), torch.full((4, 4), 3.0))
assert result.sum() == 48
from torch._inductor.remote_cache import cache_stats
print(json.dumps({name: [stat.hit, stat.put] for name, stat in cache_stats._stats.items()}))
"""


def _compiled(directory: Path, local: Path) -> dict[str, list[int]]:
    """Compile in a new process; return the number of hits and puts for each shared cache."""
    result = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(directory)],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(local)},
    )
    assert result.returncode == 0, result.stderr
    counts_by_name = json.loads(result.stdout.splitlines()[-1])
    return {name: counts for name, counts in counts_by_name.items() if name.startswith("Remote")}


@pytest.mark.full
def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    first = _compiled(tmp_path / "shared", tmp_path / "one")
    assert first["RemoteAOTAutogradCache"] == [0, 1]
    assert first["RemoteFxGraphCache"][0] == 0
    second = _compiled(tmp_path / "shared", tmp_path / "other")
    assert second["RemoteAOTAutogradCache"] == [1, 0]
    assert all(put == 0 for _, put in second.values())


@pytest.mark.parametrize("root", ["memory://inductor", "flaky://inductor", "local"])
def test_entries(root: str, tmp_path: Path) -> None:
    gfile.register_scheme("flaky", Flaky, retry=gfile.Retry(6, 0.001), overwrite=True)
    backend: Any = Backend(tmp_path if root == "local" else root)
    assert backend.get("pt2:key") is None
    backend.put("pt2:key", b"one")
    backend.put("pt2:key", b"other")
    assert backend.get("pt2:key") == b"other"
    assert backend.get("pt2:other key") is None


def test_it_ends() -> None:
    gfile.set_compile_cache("memory://inductor")
    cache: Any = remote_cache.RemoteFxGraphCache("an id")
    cache.put("key", {"data": 1})
    assert cache.get("key") == {"data": 1}
    assert torch._inductor.config.fx_graph_remote_cache
    gfile.set_compile_cache(None)
    assert not torch._inductor.config.fx_graph_remote_cache
    assert remote_cache.RedisRemoteCache.backend_override_cls is None


def test_debug_dumps_go_to_any_scheme(tmp_path: Path) -> None:
    import torch._inductor.config as inductor

    gfile.set_debug_directory("memory://dumps")
    try:
        torch._dynamo.reset()
        with inductor.patch({"trace.enabled": True, "trace.debug_dir": str(tmp_path / "here")}):
            torch.compile(lambda x: torch.mm(x, x) @ x)(torch.ones(2, 2))
    finally:
        gfile.set_debug_directory(None)
    names = gfile.ListDir("memory://dumps")
    assert names
    assert all(name.endswith(".tar.gz") for name in names)
    with gfile.Open(f"memory://dumps/{names[0]}", "rb") as file, tarfile.open(fileobj=file) as tar:
        assert any("output_code.py" in name for name in tar.getnames())


def test_tensorboard_writes_to_any_scheme() -> None:
    from torch.utils.tensorboard import SummaryWriter

    loader: Any = import_module("tensorboard.backend.event_processing.event_file_loader")
    with SummaryWriter(log_dir="memory://board") as writer:
        for step in range(3):
            writer.add_scalar("loss", 1.0 / (step + 1), step)
    (name,) = gfile.ListDir("memory://board")
    events = list(loader.EventFileLoader(f"memory://board/{name}").Load())
    assert [event.step for event in events if event.summary.value] == [0, 1, 2]


def test_cache_directories_have_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.runtime.cache_dir_utils import cache_dir
    from torch.utils.cpp_extension import _get_build_directory

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "extensions"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    assert cache_dir() == str(tmp_path / "inductor")
    assert Path(_get_build_directory("a", verbose=False)).is_relative_to(tmp_path / "extensions")
    assert torch.hub.get_dir() == str(tmp_path / "home" / "hub")
