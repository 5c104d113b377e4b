# SPDX-License-Identifier: Apache-2.0
"""Training, and saving and loading a model in every format, work in a single PAR process."""

from __future__ import annotations

import pathlib
import pickle
import subprocess
import sys

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn, package

from tests.par import workers


@pytest.fixture
def network() -> workers.TwoLayers:
    torch.manual_seed(0)
    return workers.TwoLayers()


_X = torch.arange(12.0).view(3, 4) / 12


@pytest.mark.full
def test_training_lowers_the_loss(network: nn.Module) -> None:
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
    targets = torch.tensor([0, 1, 0])
    losses = []
    for _ in range(200):
        loss = nn.functional.cross_entropy(network(_X), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize("mmap", [False, True])
def test_save_and_load(network: nn.Module, tmp_path: pathlib.Path, mmap: bool) -> None:
    torch.save(network.state_dict(), tmp_path / "weights.pt")
    loaded = torch.load(tmp_path / "weights.pt", mmap=mmap)
    assert loaded.keys() == network.state_dict().keys()
    assert loaded["first.weight"].equal(network.state_dict()["first.weight"])


def test_load_refuses_code_unless_told(tmp_path: pathlib.Path) -> None:
    """torch.load would default to weights_only=False if torch.version lacked git_version."""
    torch.save({"callable": subprocess.run}, tmp_path / "code.pt")
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        torch.load(tmp_path / "code.pt")


def test_a_module_is_pickled_by_name(network: nn.Module, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "network.pickle"
    path.write_bytes(pickle.dumps(network))
    program = f"import pickle; print(type(pickle.load(open({str(path)!r}, 'rb'))).__qualname__)"
    answer = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert answer.stdout == "TwoLayers\n"


def test_jit_script(network: nn.Module, tmp_path: pathlib.Path) -> None:
    torch.jit.script(network).save(tmp_path / "scripted.pt")
    scripted = torch.jit.load(tmp_path / "scripted.pt")
    torch.testing.assert_close(scripted(_X), network(_X))
    assert scripted(_X[0]).shape == (1, 2), "the script lost a branch of the source"


def test_jit_trace(network: nn.Module) -> None:
    traced = torch.jit.trace(network, (_X,))
    torch.testing.assert_close(traced(_X * 2), network(_X * 2))


def test_export_save_and_load(network: nn.Module, tmp_path: pathlib.Path) -> None:
    rows = torch.export.Dim("rows", min=2)
    program = torch.export.export(network, (_X,), dynamic_shapes={"x": {0: rows}})
    torch.export.save(program, tmp_path / "program.pt2")
    loaded = torch.export.load(tmp_path / "program.pt2").module()
    more = torch.cat([_X, _X])
    torch.testing.assert_close(loaded(more), network(more))


def test_torch_package_carries_the_source(network: nn.Module, tmp_path: pathlib.Path) -> None:
    with package.PackageExporter(tmp_path / "network.zip") as exporter:
        exporter.intern("tests.**")
        exporter.extern(["torch.**", "sys", "pathlib"])
        exporter.save_pickle("network", "network.pkl", network)
    importer = package.PackageImporter(tmp_path / "network.zip")
    loaded = importer.load_pickle("network", "network.pkl")
    assert type(loaded) is not workers.TwoLayers, "the package must use its copy of the class"
    torch.testing.assert_close(loaded(_X), network(_X))


def test_torch_package_mocks_what_it_leaves_out(tmp_path: pathlib.Path) -> None:
    with package.PackageExporter(tmp_path / "application.zip") as exporter:
        exporter.mock("numpy")
        exporter.add_dependency("numpy")
        exporter.save_source_string("application", "import numpy\nanswer = 42\n")
    importer = package.PackageImporter(tmp_path / "application.zip")
    application = importer.import_module("application")
    assert application.answer == 42
    with pytest.raises(NotImplementedError, match="was mocked out"):
        application.numpy.ones(1)


def test_distributed_checkpoint_to_a_directory(network: nn.Module, tmp_path: pathlib.Path) -> None:
    dcp.save({"model": network.state_dict()}, checkpoint_id=tmp_path / "checkpoint")
    assert (tmp_path / "checkpoint" / ".metadata").is_file()
    fresh = workers.TwoLayers()
    state = {"model": fresh.state_dict()}
    dcp.load(state, checkpoint_id=tmp_path / "checkpoint")
    fresh.load_state_dict(state["model"])
    torch.testing.assert_close(fresh(_X), network(_X))
