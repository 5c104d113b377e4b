# SPDX-License-Identifier: Apache-2.0
"""Test memory statistics and limits. An out-of-memory error must not change any values."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NoReturn

import jax
import pytest
import torch

from torch_google.tpu import _C
from torch_google.tpu.compile import compile_step
from torch_google.tpu.release import V2_6
from torch_google.tpu.runtime import compiler, errors

MODES = sorted(_C.Mode.__members__)
ROOM = 1 << 20


@pytest.fixture
def limited() -> Iterator[int]:
    """Limit the memory to one MiB more than the live bytes, and yield the limit."""
    torch._dynamo.reset()
    gc.collect()
    before = _C.memory_limit(0)
    limit = torch.tpu.memory_allocated() + ROOM
    _C.set_memory_limit(0, limit)
    yield limit
    _C.set_memory_limit(0, before)


def refused(work: Callable[[], Any], asked: int, limit: int) -> None:
    """Check that the error reports the requested bytes, the live bytes, the limit and a remedy."""
    live = torch.tpu.memory_allocated()
    message = (
        rf"ran out of memory: it takes {asked} bytes\. .* hold {live} bytes of the {limit} that"
    )
    with pytest.raises(torch.OutOfMemoryError, match=message + " this process may use; free some"):
        work()
    assert torch.tpu.memory_allocated() == live


def test_a_fraction_of_the_memory() -> None:
    total = torch.tpu.mem_get_info()[1]
    if not V2_6:  # v2.6's torch.accelerator has no memory functions
        assert torch.accelerator.get_memory_info()[1] == total
    assert torch.tpu.get_per_process_memory_fraction() == 1
    assert _C.memory_limit(0) == total
    torch.tpu.memory.set_per_process_memory_fraction(0.25)
    try:
        assert torch.tpu.get_per_process_memory_fraction("tpu:0") == pytest.approx(0.25)
        refused(lambda: torch.empty(total // 4, device="tpu"), total // 4 * 4, total // 4)
    finally:
        torch.tpu.set_per_process_memory_fraction(1.0)
    for fraction in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="Give 0 to 1"):
            torch.tpu.set_per_process_memory_fraction(fraction)


@pytest.mark.parametrize("index", [7, 99, -1])
def test_an_index_that_is_no_device_has_no_memory(index: int) -> None:
    for ask in (
        torch.tpu.mem_get_info,
        torch.tpu.get_per_process_memory_fraction,
        lambda device: torch.tpu.set_per_process_memory_fraction(0.5, device),
    ):
        with pytest.raises(ValueError, match=f"no device tpu:{index}; this process has"):
            ask(index)


@pytest.mark.skipif(V2_6, reason="torch.accelerator of v2.6 counts no memory")
def test_the_accelerator_counts_as_the_module_does() -> None:
    gc.collect()
    before = torch.accelerator.memory_allocated()
    torch.accelerator.reset_peak_memory_stats()
    torch.accelerator.reset_accumulated_memory_stats()
    x = torch.ones(1000, device="tpu")
    del x
    y = torch.ones(500, device="tpu")
    torch.accelerator.empty_cache()
    torch.tpu.empty_cache()
    assert torch.accelerator.memory_allocated() == torch.tpu.memory_allocated() == before + 2000
    assert torch.accelerator.max_memory_allocated() == torch.tpu.max_memory_allocated()
    assert torch.tpu.max_memory_allocated() == before + 4000
    assert torch.accelerator.memory_reserved() == torch.tpu.memory_reserved() == before + 2000
    assert torch.accelerator.max_memory_reserved() == torch.tpu.max_memory_reserved()
    stats = torch.accelerator.memory_stats()
    assert stats == torch.tpu.memory_stats()
    assert stats["allocated_bytes.all.allocated"] == 6000
    assert stats["allocated_bytes.all.freed"] == 4000
    nested = torch.tpu.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == before + 2000
    assert f"{before + 2000:,}" in torch.tpu.memory_summary()
    del y


@pytest.mark.parametrize("mode", MODES)
def test_a_result_without_room_is_refused_and_nothing_else_is_lost(mode: Any, limited: int) -> None:
    x = torch.arange(4.0, device="tpu")
    wide = x.expand(ROOM, 4)
    state = torch.tpu.get_rng_state()
    with torch.tpu.eager_mode(mode):
        refused(lambda: torch.empty(ROOM, device="tpu"), 4 * ROOM, limited)
        refused(lambda: torch.ones(ROOM).to("tpu"), 4 * ROOM, limited)
        refused(lambda: torch.rand(ROOM, device="tpu"), 4 * ROOM, limited)
        refused(lambda: wide + 1, 16 * ROOM, limited)
        refused(lambda: torch.dropout(wide, 0.5, True), 16 * ROOM, limited)
        refused(lambda: x.resize_(ROOM + 4), 4 * ROOM, limited)
        assert (x.shape, x.stride()) == ((4,), (1,))
        assert torch.equal(torch.tpu.get_rng_state(), state)
        tensor = torch.ones(ROOM // 8, device="tpu")  # this tensor takes half of the limit
        assert (x + 1).tolist() == [1.0, 2.0, 3.0, 4.0]
        assert tensor.sum().item() == ROOM // 8


def test_a_compiled_graph_without_room_leaves_what_it_would_write(limited: int) -> None:
    x, weight = torch.ones(4, device="tpu"), torch.zeros(1000, device="tpu")

    @torch.compile
    def work(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        weight.add_(1)
        return x.expand(ROOM, 4) * torch.rand_like(x)

    state = torch.tpu.get_rng_state()
    for _ in range(2):
        with pytest.raises(
            torch.OutOfMemoryError,
            match=r"a graph of torch.compile's ran out of memory: it takes \d{8} bytes\. Live .* of "
            rf"the {limited} that this process may use; free some",
        ):
            work(x, weight)
        assert torch.equal(torch.tpu.get_rng_state(), state)
        assert weight.tolist() == [0.0] * 1000
    _C.set_memory_limit(0, 1 << 40)
    assert work(x, weight).shape == (ROOM, 4)
    assert weight.tolist() == [1.0] * 1000


@pytest.mark.skipif(V2_6, reason="v2.6 cannot trace a step")
def test_a_compiled_step_without_room_leaves_the_model_and_its_optimizer(limited: int) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    step = compile_step(lambda x: model(x).square().mean(), optimizer)
    small = torch.ones(2, 4, device="tpu")
    first = step(small).item()
    before = [p.tolist() for p in model.parameters()]
    large = torch.ones(4, device="tpu").expand(ROOM // 4, 4)
    with pytest.raises(torch.OutOfMemoryError, match="a graph of torch.compile's"):
        step(large)
    assert [p.tolist() for p in model.parameters()] == before
    assert {s["step"].item() for s in optimizer.state.values()} == {1.0}
    assert step(small).item() < first


def test_a_fused_program_without_room_for_its_scratch_memory_runs_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = SimpleNamespace(temp_size_in_bytes=1 << 50)
    monkeypatch.setattr(compiler, "_memory", lambda _: known)
    tried: list[Any] = []  # results of first runs that the runtime waited for
    monkeypatch.setattr(jax, "block_until_ready", tried.append)
    x = torch.ones(64, device="tpu")
    with torch.tpu.eager_mode("fused"):
        for turn in range(3):
            x.add_(1).mul_(2).sub_(2).add_(0)
            assert x.tolist() == [2.0 ** (turn + 1)] * 64
            torch.tpu.wait_for_compiles()
    assert torch.tpu.metrics().fused_hits > 0
    assert tried == []


@pytest.mark.parametrize(
    "message",
    ["RESOURCE_EXHAUSTED: Out of memory: 5 bytes", "INTERNAL: Out of memory allocating 5"],
)
def test_what_pjrt_says_of_memory_is_the_error_of_torch(message: str) -> None:
    error = jax.errors.JaxRuntimeError(message)
    with pytest.raises(
        torch.OutOfMemoryError, match=f"aten::mm ran out of memory: {message}. Live "
    ):
        errors.explain("aten::mm", error)


def test_what_pjrt_says_of_anything_else_stays() -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL: else"):
        errors.explain("aten::mm", jax.errors.JaxRuntimeError("INTERNAL: else"))


_REFUSED = (
    "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries "
    "(18.04G) exceeds available HBM (15.75G)"
)


@pytest.fixture
def _too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the compiler reject every program, as a TPU's compiler rejects one that does not fit."""

    def refuse(_: Any) -> NoReturn:
        raise jax.errors.JaxRuntimeError(f"{_REFUSED}\n\nLargest program allocations in hbm:")

    monkeypatch.setattr(compiler, "compile_safely", refuse)


def _message(name: str) -> str:
    return rf"tpu: {name} ran out of memory: {re.escape(_REFUSED)}\. Live .* hold \d+ bytes"


@pytest.mark.usefixtures("_too_large")
@pytest.mark.parametrize("mode", MODES)
def test_an_operator_that_the_compiler_rejects(mode: Any) -> None:
    x = torch.ones(7).to("tpu")
    with (
        torch.tpu.eager_mode(mode),
        pytest.raises(torch.OutOfMemoryError, match=_message("aten::cosh")),
    ):
        x.cosh()
    assert x.tolist() == [1.0] * 7


@pytest.mark.usefixtures("_too_large")
def test_a_graph_that_the_compiler_rejects() -> None:
    x = torch.ones(7).to("tpu")
    with pytest.raises(torch.OutOfMemoryError, match=_message("torch.compile")):
        torch.compile(lambda x: x.cosh() + x)(x)


def test_a_trace_that_the_compiler_rejects_runs_operator_by_operator(
    caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    x = torch.ones(67, device="tpu")
    with torch.tpu.eager_mode("fused"):
        for turn in range(3):
            x.add_(1).mul_(2).sub_(2).add_(0)
            if turn == 0:
                # Make the compiler reject all programs from now on. Only the fused program is new,
                # so only it is rejected.
                request.getfixturevalue("_too_large")
            assert x.tolist() == [2.0 ** (turn + 1)] * 67
            torch.tpu.wait_for_compiles()
    name = r"a trace of \d+ operators"
    assert re.search("not compiled: OutOfMemoryError: " + _message(name), caplog.text)
