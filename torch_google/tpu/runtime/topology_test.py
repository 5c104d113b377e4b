# SPDX-License-Identifier: Apache-2.0
"""Test topology names and errors. The tests that compile for a topology need libtpu."""

from __future__ import annotations

import os
import sys

import pytest

from torch_google.tpu.runtime import topology


@pytest.mark.parametrize(
    ("name", "generation", "shape"),
    [
        ("v5e", "v5e", (1, 1)),
        ("v5e:4x4", "v5e", (4, 4)),
        ("v6e:2x4", "v6e", (2, 4)),
        ("v5p", "v5p", (1, 1, 1)),
        ("v5p:2x2", "v5p", (2, 2, 1)),
        ("tpu7x:2x2x1", "tpu7x", (2, 2, 1)),
    ],
)
def test_a_name_has_a_generation_and_a_shape(
    name: str, generation: str, shape: tuple[int, ...]
) -> None:
    assert topology._parse(name) == (generation, shape)
    assert topology.Topology(generation, shape, ()).chips == shape[0] * shape[1]


def test_a_wrong_generation_lists_the_right_ones() -> None:
    with pytest.raises(ValueError, match=r"'v7x:2x2x1'.*v4, v5e, v5p, v6e, tpu7x"):
        topology.topology("v7x:2x2x1")


@pytest.mark.parametrize("size", ["2xx2", "0x2", "4", "2x2x2", "x", "2x2 "])
def test_a_wrong_size_lists_the_usual_ones(size: str) -> None:
    with pytest.raises(ValueError, match="Use for example v5e:1x1, v5e:2x2"):
        topology.topology(f"v5e:{size}")


def test_a_missing_libtpu_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libtpu", None)  # importing libtpu now fails
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    topology.topology.cache_clear()
    with pytest.raises(RuntimeError, match=r"pip install 'libtpu"):
        topology.topology("v5e:2x2")


def test_the_environment_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPU_WORKER_HOSTNAMES", "mine")
    monkeypatch.delenv("TPU_ACCELERATOR_TYPE", raising=False)
    before = dict(os.environ)
    with topology._environment():
        assert os.environ["TPU_WORKER_HOSTNAMES"] == "mine"
        assert os.environ["TPU_ACCELERATOR_TYPE"]
    assert dict(os.environ) == before


def _installed() -> bool:
    from jax._src.cloud_tpu_init import get_tpu_library_path

    return get_tpu_library_path() is not None


@pytest.mark.skipif(not _installed(), reason="libtpu, a wheel of 213 MB, is not installed")
@pytest.mark.parametrize(
    ("name", "devices"),
    [("v5e", 1), ("v5e:2x2", 4), ("v6e:16x16", 256), ("v5p:2x2x2", 8), ("v4", 2), ("tpu7x", 2)],
)
def test_a_topology_has_devices(name: str, devices: int) -> None:
    described = topology.topology(name)
    assert len(described.devices) == devices
    assert all(device.platform == "tpu" for device in described.devices)
    assert topology.topology(described.name).chips == described.chips
