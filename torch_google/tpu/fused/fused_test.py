# SPDX-License-Identifier: Apache-2.0
"""Fused mode computes the right results, keeps the right values and flushes when it must."""

from __future__ import annotations

import copy
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
import pytest
import torch
from torch import nn

from torch_google.tpu import _C
from torch_google.tpu.fused import fusion
from torch_google.tpu.runtime import compiler


@pytest.fixture(autouse=True)
def _fused() -> Iterator[None]:
    with torch.tpu.eager_mode("fused"):
        yield
    torch.tpu.set_fused_limits()
    torch.tpu.set_per_process_memory_fraction(1.0)


def run_until_compiled(work: Callable[[], Any]) -> Any:
    """Run `work` until its trace has been compiled. Then run it once more and return the result."""
    # Run `work` twice, because the trace of the first run differs from later ones: additional
    # values are alive while its operators are compiled.
    work()
    work()
    torch.tpu.wait_for_compiles()
    torch.tpu.reset_metrics()
    result = work()
    assert torch.tpu.metrics().fused_served == 0
    return result


def test_nothing_runs_before_somebody_looks() -> None:
    x = torch.ones(3, device="tpu")
    assert x.tolist() == [1.0] * 3
    torch.tpu.reset_metrics()
    y = x * 2 + 1
    assert torch.tpu.metrics().flushes == {}
    assert y.tolist() == [3.0] * 3
    assert torch.tpu.metrics().flushes == {"host read": 1}
    z = y + 1
    torch.tpu.synchronize()
    assert torch.tpu.metrics().flushes == {"host read": 1, "sync": 1}
    w = z + 1
    with torch.tpu.eager_mode("debug"):
        assert (w + 1).tolist() == [6.0] * 3
    assert torch.tpu.metrics().flushes == {"host read": 1, "sync": 1, "mode change": 1}
    v = w + 1
    _C.flush("collective")
    assert torch.tpu.metrics().flushes["collective"] == 1
    assert v.tolist() == [6.0] * 3
    with pytest.raises(ValueError, match="unknown flush reason 'boredom'"):
        _C.flush("boredom")


def test_views_and_writes_in_one_trace() -> None:
    def work(device: str) -> list[Any]:
        base = torch.arange(12.0).to(device).reshape(3, 4)
        column = base[:, 1]
        column.add_(100)
        base.t()[2].zero_()
        copied = base.clone()
        base[1] *= copied[0]
        column.copy_(base[:, 0])
        flat = base.view(-1)
        flat[::5] = -1
        out = torch.empty(0, device=device)
        torch.add(base, copied, out=out)
        return [t.tolist() for t in (base, column, copied, flat, out)]

    assert run_until_compiled(lambda: work("tpu")) == work("cpu")


def test_what_nobody_will_look_at_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    fusions: list[tuple[int, list[int], list[int], int]] = []
    original = fusion.Fusion.__init__

    def spy(self: Any, device: int, steps: Any, kept: Any, donated: Any, pairs: int) -> None:
        fusions.append((len(steps), list(kept), list(donated), pairs))
        original(self, device, steps, kept, donated, pairs)

    monkeypatch.setattr(fusion.Fusion, "__init__", spy)
    x = torch.rand(3, 5, device="tpu")
    y = torch.rand(3, 5, device="tpu")
    torch.tpu.synchronize()
    fusions.clear()
    a = x + y
    b = a.exp()
    c = b.sin()
    x.mul_(b)
    del a, b, y
    torch.tpu.synchronize()
    # x and c are kept. The old x was overwritten and y is dead, so both buffers may be reused. The
    # new x may reuse the buffer of the old x.
    assert fusions == [(4, [3, 2], [0, 1], 1)]
    d = c + x
    e = d * 2
    f = e * 2
    g = f * 2
    del d, e, f, g
    torch.tpu.synchronize()
    assert len(fusions) == 1  # all results of the second trace are dead, so it was not compiled


def test_donated_memory_is_nobody_elses() -> None:
    def work() -> tuple[list[float], float, list[float]]:
        x = torch.arange(4.0).to("tpu")
        held = _C.value(x)
        x.add_(1).mul_(2).add_(3).mul_(4)
        return x.tolist(), float(held.sum()), held.tolist()

    expected = [20.0, 28.0, 36.0, 44.0], 6.0, [0.0, 1.0, 2.0, 3.0]
    assert run_until_compiled(work) == expected


def test_shared_memory_is_never_donated(monkeypatch: pytest.MonkeyPatch) -> None:
    donations: list[list[int]] = []
    original = fusion.Fusion.__init__

    def spy(self: Any, device: int, steps: Any, kept: Any, donated: Any, pairs: int) -> None:
        donations.append(list(donated))
        original(self, device, steps, kept, donated, pairs)

    monkeypatch.setattr(fusion.Fusion, "__init__", spy)
    x = torch.arange(7.0).to("tpu")
    _C.share(x)
    assert _C.shared(x)
    x.add_(1).mul_(2).add_(3).mul_(4)
    torch.tpu.synchronize()
    x.add_(1).mul_(2).add_(3).mul_(4)
    _C.share(x)
    torch.tpu.synchronize()
    assert donations[0] == []
    # The trace has computed a new value, to which no other code has a reference.
    assert not _C.shared(x)


def test_memory_is_reused() -> None:
    x = torch.zeros(1000, device="tpu")

    def work() -> None:
        x.add_(1).mul_(1.0).add_(1).mul_(1.0)
        torch.tpu.synchronize()

    work()
    run_until_compiled(work)
    before = _C.value(x)
    work()
    assert not before.is_deleted()  # the test still uses `before`, so a copy was donated instead
    pointer = _C.value(x).unsafe_buffer_pointer()
    work()
    assert _C.value(x).unsafe_buffer_pointer() == pointer


def test_what_is_written_in_place_stays_where_it_is() -> None:
    x = torch.zeros(1000, device="tpu")
    y = torch.zeros(1000, device="tpu")

    def work() -> torch.Tensor:
        dead = torch.ones(1000, device="tpu")
        torch.tpu.synchronize()
        # `dead` has the same shape and dtype as y, and comes before y among the inputs of the
        # trace.
        fresh = x + dead
        del dead
        y.add_(1).mul_(1.0)
        x.add_(fresh).mul_(1.0)
        torch.tpu.synchronize()
        return fresh

    def places() -> list[int]:
        return [_C.value(tensor).unsafe_buffer_pointer() for tensor in (x, y)]

    work()
    run_until_compiled(work)
    before = places()
    work()
    assert places() == before


def test_loops_that_never_look_have_bounded_traces() -> None:
    x = torch.ones(8, device="tpu")
    x.add_(0.0).mul_(1.0)
    torch.tpu.synchronize()
    before = torch.tpu.memory_allocated()
    torch.tpu.reset_metrics()
    for i in range(10_000):
        x.add_(0.0).mul_(1.0)
        if i == 500:
            torch.tpu.wait_for_compiles()
            torch.tpu.reset_metrics()
    done = torch.tpu.metrics()
    assert (done.fused_misses, done.fused_served) == (0, 0)
    assert set(done.flushes) == {"repetition"}
    assert done.flushes["repetition"] == pytest.approx(9_499 * 2 / 64, abs=1)
    assert torch.tpu.memory_allocated() == before
    assert x.tolist() == [1.0] * 8


def test_a_loop_behind_other_work_repeats_too() -> None:
    x = torch.ones(8, device="tpu")
    torch.tpu.synchronize()
    torch.tpu.reset_metrics()
    for _ in range(3):
        x = x.exp().log()
    x = x.sin().cos()
    for _ in range(600):
        x = x.abs().neg()
    assert set(torch.tpu.metrics().flushes) == {"repetition"}


def test_limits_end_a_trace() -> None:
    x = torch.ones(1000, device="tpu")
    torch.tpu.synchronize()
    torch.tpu.set_fused_limits(operators=5)
    torch.tpu.reset_metrics()
    y = x.exp().log().sin().cos().abs().neg()
    assert torch.tpu.metrics().flushes == {"length": 1}
    torch.tpu.synchronize()
    torch.tpu.set_fused_limits(memory=10_000)
    torch.tpu.reset_metrics()
    z = y.exp().log().sin()
    assert torch.tpu.metrics().flushes == {"bytes": 1}
    assert z.shape == (1000,)
    with pytest.raises(ValueError, match="Give at least 1"):
        torch.tpu.set_fused_limits(operators=0)


def test_random_numbers_are_those_of_strict_mode() -> None:
    def work() -> list[list[float]]:
        torch.manual_seed(7)
        a = torch.randn(5, device="tpu")
        b = torch.empty(5, device="tpu").uniform_() + a
        c = nn.functional.dropout(b * 3, 0.5)
        return [t.tolist() for t in (a, b, c)]

    with torch.tpu.eager_mode("strict"):
        expected = work()
    for actual, reference in zip(run_until_compiled(work), expected, strict=True):
        assert actual == pytest.approx(reference, rel=1e-6)


def test_eight_threads() -> None:
    totals: dict[int, float] = {}

    def work(number: int) -> None:
        with torch.tpu.eager_mode(("fused", "strict", "debug", "fused")[number % 4]):
            x = torch.full((4, 4), float(number)).to("tpu")
            total = torch.zeros(4, 4).to("tpu")
            for i in range(60):
                total.add_(x * 2)
                x.t().mul_(1.0)
                if i % 20 == number:
                    total.sum().item()
            totals[number] = total.sum().item()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == {n: 1920.0 * n for n in range(8)}


def test_threads_share_what_one_of_them_records() -> None:
    x = torch.zeros(64, device="tpu")
    lock = threading.Lock()

    def work() -> None:
        with torch.tpu.eager_mode("fused"):
            for i in range(50):
                with lock:
                    x.add_(1)
                if i % 7 == 0:
                    x.sum().item()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.tolist() == [200.0] * 64


def test_tensors_that_die_in_other_threads() -> None:
    def work() -> None:
        with torch.tpu.eager_mode("fused"):
            tensors = [torch.ones(5, device="tpu") * i for i in range(20)]
            sums.append(tensors[7] + tensors[8])

    sums: list[torch.Tensor] = []
    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert [t.tolist() for t in sums] == [[15.0] * 5] * 3


def test_copies_and_clears() -> None:
    model = nn.Linear(16, 4).to("tpu")
    x = torch.ones(2, 16, device="tpu")
    y = model(x)
    twin = copy.deepcopy(model)
    z = twin(x)
    _C.clear_programs()
    assert torch.equal(y.cpu(), z.cpu())
    assert torch.equal(model(x).cpu(), y.cpu())


def test_no_collection_while_any_thread_runs_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, leave = threading.Semaphore(0), [threading.Event(), threading.Event()]
    waiting = iter(leave)
    find_entry = compiler.find_entry
    enabled: list[bool] = []

    def wait(fingerprint: str, device: int) -> Any:
        if fingerprint.startswith("fused "):
            inside.release()
            assert next(waiting).wait(60)
            enabled.append(gc.isenabled())
        return find_entry(fingerprint, device)

    monkeypatch.setattr(compiler, "find_entry", wait)
    threads = []
    for number in range(2):
        x = torch.ones(3 + number).to("tpu")
        for _ in range(4):  # four iterations, because a shorter trace is not fused
            x = x * 2 + 1
        threads.append(threading.Thread(target=x.cpu))
        threads[-1].start()
        assert inside.acquire(timeout=60)
    for event, thread in zip(leave, threads, strict=True):
        event.set()
        thread.join()
    assert enabled == [False, False]
    assert gc.isenabled()


def test_resize_and_storages_of_what_is_pending() -> None:
    x = torch.arange(6.0).to("tpu") + 1
    x.resize_(8)
    assert x[:6].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    y = torch.arange(4.0).to("tpu") * 2
    shared = torch.empty(0, device="tpu").set_(y.untyped_storage(), 1, (2,))
    shared.add_(1)
    assert y.tolist() == [0.0, 3.0, 5.0, 6.0]
    del x, y, shared
    gc.collect()
    torch.tpu.synchronize()


def test_events_wait_for_what_is_pending() -> None:
    x = torch.ones(4, device="tpu") * 2
    event = torch.tpu.Event(enable_timing=True)
    event.record()
    event.synchronize()
    assert event.query()
    assert torch.tpu.metrics().flushes == {"sync": 1}
    assert x.tolist() == [2.0] * 4


def test_modes_nest_and_exceptions_restore_them() -> None:
    assert torch.tpu.get_eager_mode() == "fused"

    def fail() -> None:
        with torch.tpu.eager_mode("debug"):
            raise KeyError(torch.tpu.get_eager_mode())

    with torch.tpu.eager_mode("strict"):
        with pytest.raises(KeyError, match="debug"):
            fail()
        assert torch.tpu.get_eager_mode() == "strict"
    assert torch.tpu.get_eager_mode() == "fused"
    modes: list[str] = []
    thread = threading.Thread(target=lambda: modes.append(torch.tpu.get_eager_mode()))
    thread.start()
    thread.join()
    assert modes == ["strict"]


def test_what_could_not_be_computed_says_so_and_nothing_is_lost() -> None:
    x = torch.ones(1, device="tpu")
    parameter = torch.zeros(3, device="tpu")
    torch.tpu.synchronize()
    torch.tpu.set_fused_limits(memory=1 << 60)
    # The limit exceeds the machine's memory, so the machine runs out of memory first.
    _C.set_memory_limit(0, 1 << 60)
    before = torch.tpu.memory_allocated()

    def fail() -> None:
        parameter.add_(1)
        huge = x.expand(1 << 40) + 1
        total = huge.sum()
        lost = total + 1
        parameter.add_(lost)
        with pytest.raises(torch.OutOfMemoryError, match="ran out of memory"):
            torch.tpu.synchronize()
        with pytest.raises(torch.OutOfMemoryError, match="ran out of memory"):
            lost.item()
        torch.tpu.wait_for_compiles()
        lost.zero_()
        assert lost.item() == 0

    for _ in range(2):  # the first run is operator by operator, the second one program
        fail()
        # A tensor may store an error, but the error must not keep alive the frames that it passed
        # through, because they refer to other tensors.
        gc.collect()
        assert torch.tpu.memory_allocated() == before
    assert parameter.tolist() == [2.0] * 3
    assert (x + 1).item() == 2


def test_a_program_that_does_not_compile_runs_operator_by_operator(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: fusion.Fusion) -> Any:
        raise ValueError("no such program")

    monkeypatch.setattr(fusion.Fusion, "lower", broken)
    x = torch.ones(2, 9, device="tpu")
    for _ in range(3):
        assert x.exp().log().sin().asin().sum().item() == pytest.approx(18)
        torch.tpu.wait_for_compiles()
    done = torch.tpu.metrics()
    assert (done.fused_hits, done.flushes["host read"]) == (0, 3)
    assert [record.getMessage() for record in caplog.records] == [
        "tpu: a fused program was not compiled: ValueError: no such program. "
        "Its operators run one by one from now on"
    ] * done.fused_misses
    assert 1 <= done.fused_misses < 3


def test_cache_only_refuses_and_loses_nothing() -> None:
    x = torch.full((2, 3), 2.0, device="tpu")
    x.exp().log().sin().asin().tolist()
    with torch.tpu.cache_only():
        with pytest.raises(torch.tpu.CacheMissError, match=r"aten::cosh is not compiled.*cosh"):
            x.cosh()
        y = x.exp().log().sin().asin().exp()
        with pytest.raises(torch.tpu.CacheMissError, match="a trace of 5 operators"):
            y.tolist()
        assert y[0].tolist() == pytest.approx([3.1319] * 3, rel=1e-3)
    torch.tpu.set_cache_only(True)
    try:
        with pytest.raises(torch.tpu.CacheMissError):
            x.cosh()
        with torch.tpu.cache_only(False):
            assert x.cosh().tolist()[0] == pytest.approx([3.7622] * 3, rel=1e-4)
    finally:
        torch.tpu.set_cache_only(False)


@pytest.mark.full
def test_a_process_may_end_with_work_undone() -> None:
    program = """
import torch, torch_google.tpu
torch_google.tpu.autoload()
torch.tpu.set_eager_mode("fused")
x = torch.ones(4, device="tpu")
y = x.exp().log().sin().cos()
torch.tpu.synchronize()  # compiles in the background
z = y.exp().log()
torch.kept = z
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_a_signal_in_the_first_run_of_a_program_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weight = torch.ones(7, device="tpu")
    torch.tpu.synchronize()

    def step() -> None:
        weight.mul_(8).add_(1).sub_(1).div_(4).neg_().abs_()
        torch.tpu.synchronize()

    step()
    torch.tpu.wait_for_compiles()
    ready = jax.block_until_ready

    signals = iter([KeyboardInterrupt, KeyboardInterrupt])

    def interrupted(values: Any) -> Any:
        ready(values)
        for signal in signals:
            raise signal  # this acts like a signal handler that runs after the wait in C

    with monkeypatch.context() as patch:
        patch.setattr(jax, "block_until_ready", interrupted)
        with pytest.raises(KeyboardInterrupt):
            step()
    assert weight.tolist() == [4.0] * 7
    step()
    assert weight.tolist() == [8.0] * 7


def test_a_signal_before_the_results_of_a_first_run_are_known_loses_nothing() -> None:
    array = jax.numpy.ones(5)
    lowered = jax.jit(lambda x: x + 1, donate_argnums=0).lower(array)
    compiled = lowered.compile()

    def interrupted(*arguments: Any) -> Any:
        compiled(*arguments)
        raise KeyboardInterrupt

    values, interruption = fusion.attempt(interrupted, [array], [0])
    assert array.is_deleted()
    assert isinstance(interruption, KeyboardInterrupt)
    assert [value.tolist() for value in values] == [[1.0] * 5]


def test_a_program_that_has_run_runs_without_a_frame_of_python() -> None:
    array = jax.numpy.ones(3)
    compiled = jax.jit(lambda x: (x * 2,)).lower(array).compile()
    compiled(array)
    run = fusion.entry(compiled)
    assert not hasattr(run, "__code__")
    assert run is not compiled
    assert run(array)[0].tolist() == [2.0] * 3
