# SPDX-License-Identifier: Apache-2.0
"""torch.compile works in a PAR: Dynamo traces packed code, and Inductor uses the host's g++."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import torch

from tests.par import workers

_X = torch.arange(12.0).view(3, 4) / 12


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use an empty cache, so that no test reuses code compiled by an earlier test."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    torch._dynamo.reset()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backend_without_a_compiler(backend: str) -> None:
    network = workers.TwoLayers()
    compiled = torch.compile(network, backend=backend, fullgraph=True)
    loss = compiled(_X).sum()
    torch.testing.assert_close(loss, network(_X).sum())
    loss.backward()
    assert network.first.weight.grad is not None


def test_dynamo_does_not_trace_its_own_files() -> None:
    """Dynamo recognizes its own files by `co_filename`. With wrong names, it would trace itself."""
    from torch._dynamo import trace_rules

    assert trace_rules.check_verbose(torch._dynamo.reset).skipped
    assert not trace_rules.check_verbose(workers.add_rank).skipped


@pytest.mark.full
@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler: no g++")
def test_inductor_with_the_host_compiler() -> None:
    network = workers.TwoLayers()
    compiled = torch.compile(network, backend="inductor", fullgraph=True)
    torch.testing.assert_close(compiled(_X), network(_X))
    compiled(_X).sum().backward()
    assert network.first.weight.grad is not None


@pytest.mark.full
def test_inductor_without_a_compiler_says_so(tmp_path: pathlib.Path) -> None:
    program = "import torch; torch.compile(lambda x: x.sin() + 1)(torch.ones(3))"
    environment = {**os.environ, "PATH": str(tmp_path)}
    environment.pop("CXX", None)
    answer = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert answer.returncode == 1
    assert "InvalidCxxCompiler: No working C++ compiler found" in answer.stderr
