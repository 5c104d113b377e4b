# SPDX-License-Identifier: Apache-2.0
"""Programs are evicted before the process runs out of memory mappings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tools.par.testing.budget import only_full
from torch_google.tpu import _C
from torch_google.tpu.runtime import program_eviction

_MORE = 200
_SHAPES = 60


@pytest.fixture
def compile_cache(tmp_path: Path) -> Iterator[None]:
    torch.tpu.set_compile_cache(tmp_path)
    yield
    torch.tpu.set_compile_cache(None)
    _C.clear_programs()


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> program_eviction.MappingBudget:
    torch.ones(2, device="tpu").add(1).cpu()
    now = program_eviction.mappings()
    budget = program_eviction.MappingBudget(now + _MORE, now + 20 * _MORE)
    monkeypatch.setattr(program_eviction, "_SOONEST", 0.0)
    monkeypatch.setattr(program_eviction, "_RATE", 1e9)
    monkeypatch.setattr(program_eviction, "BUDGET", budget)
    return budget


@pytest.mark.full
@pytest.mark.parametrize("mode", ["fused", *only_full("strict")])
def test_programs_of_ever_new_shapes_take_a_bounded_number_of_mappings(
    mode: str, room: program_eviction.MappingBudget
) -> None:
    del room
    before, start = torch.tpu.metrics().forgotten, program_eviction.mappings()
    most = 0
    with torch.tpu.eager_mode(mode):
        for length in range(3, _SHAPES):
            ones = torch.ones(length, device="tpu")
            assert ((ones * 2 + 1) * ones).relu().sum().item() == 3 * length
            most = max(most, program_eviction.mappings())
        torch.tpu.wait_for_compiles()
    assert torch.tpu.metrics().forgotten > before
    # Without eviction, each shape would add about three mappings for each of its six programs.
    assert most - start < 1.5 * _MORE


@pytest.mark.full
def test_programs_that_are_loaded_when_they_run_are_counted_then(
    compile_cache: None, request: pytest.FixtureRequest
) -> None:
    del compile_cache

    def compute() -> None:
        for length in range(3, _SHAPES):
            ones = torch.ones(length, device="tpu")
            assert ((ones * 2 + 1) * ones).relu().sum().item() == 3 * length
        torch.tpu.wait_for_compiles()

    compute()
    with torch.tpu.eager_mode("fused"):
        compute()
        _C.clear_programs()
        # Run with fused programs only, as in a new process, without single-operator programs.
        compute()
    request.getfixturevalue("room")
    before = torch.tpu.metrics()
    compute()
    after = torch.tpu.metrics()
    assert after.forgotten > before.forgotten
    assert after.compiles == before.compiles


def test_what_was_of_use_stays(room: program_eviction.MappingBudget) -> None:
    del room
    used = torch.ones(2, device="tpu")
    before = torch.tpu.metrics().forgotten
    for length in range(3, _SHAPES):
        torch.ones(length, device="tpu").mul(3).sub(1)
        misses = torch.tpu.metrics().misses
        used.add_(1)
        assert torch.tpu.metrics().misses == misses or length == 3
    assert torch.tpu.metrics().forgotten > before
    assert used[0].item() == _SHAPES - 2


def test_what_cannot_be_forgotten_is_left_alone() -> None:
    now = program_eviction.mappings()
    room = program_eviction.MappingBudget(now - 1, now + 1000)
    torch.ones(71, device="tpu").mul(3)
    room.look()
    forgotten = torch.tpu.metrics().forgotten
    room._next = 0.0
    assert room.look() == 0
    assert torch.tpu.metrics().forgotten == forgotten


def test_who_is_interrupted_while_looking_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    room = program_eviction.MappingBudget(1 << 60, 1 << 61)

    def interrupted() -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(program_eviction, "mappings", interrupted)
        with pytest.raises(KeyboardInterrupt):
            room.look()
    assert room._next < time.monotonic() + 3600
