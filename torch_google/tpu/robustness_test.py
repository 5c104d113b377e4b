# SPDX-License-Identifier: Apache-2.0
"""Tests threads, XLA failures, settings after an exception, process exit and worker processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import pytest
import torch

import torch_google.tpu
from torch_google.tpu import _C
from torch_google.tpu.fused import fusion
from torch_google.tpu.runtime import compiler

MODES = sorted(_C.Mode.__members__)


def _exercise(seed: int, device: str, generator: torch.Generator) -> list[torch.Tensor]:
    """Run operators on a view and draw random numbers. Return both results and a gradient."""
    host = torch.Generator().manual_seed(seed)
    x = torch.randn(7, seed + 1, generator=host).to(device).requires_grad_()
    y = (x.t() @ x).relu() + 0.5
    y[0].mul_(2)
    y.sum().backward()
    noise = torch.rand(5, device=device, generator=generator)
    assert x.grad is not None
    return [tensor.detach().cpu() for tensor in (y, x.grad, noise)]


@pytest.mark.full
def test_eight_threads_of_all_modes_get_their_own_results() -> None:
    compiled = torch.compile(lambda x, y: torch.sin(x) @ y.t())
    ways: tuple[Any, ...] = ("strict", "debug", "fused", "compile")
    turns = 25
    expected = {}
    for seed in range(8):
        generator = torch.Generator("tpu").manual_seed(seed)
        noise = [_exercise(seed, "tpu", generator)[2] for _ in range(turns)]
        y, grad, _ = _exercise(seed, "cpu", torch.Generator())
        expected[seed] = [[y, grad, drawn] for drawn in noise]
        compiled(torch.ones(4, 4, device="tpu"), torch.ones(4, 4, device="tpu"))
    failures: list[str] = []
    begin = threading.Barrier(8)

    def work(seed: int) -> None:
        way = ways[seed % 4]
        begin.wait()
        generator = torch.Generator("tpu").manual_seed(seed)
        with torch.tpu.eager_mode("strict" if way == "compile" else way):
            mode = torch.tpu.get_eager_mode()
            for turn in range(turns):
                reference, actual = expected[seed][turn], _exercise(seed, "tpu", generator)
                if way == "compile":
                    square = torch.full((4, 4), float(seed + turn))
                    on = square.to("tpu")
                    actual.append(compiled(on, on).cpu())
                    reference = [*reference, torch.sin(square) @ square.t()]
                for one, other in zip(actual, reference, strict=True):
                    if not torch.allclose(one, other, rtol=1e-4, atol=1e-4):
                        failures.append(f"{way}, thread {seed}, turn {turn}")
                with torch.tpu.eager_mode(ways[turn % 3]):
                    pass
                if torch.tpu.get_eager_mode() != mode:
                    failures.append(f"{way}, thread {seed} has another's mode")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert failures == []


_AT_ONCE = """
import threading, torch, torch_google.tpu
torch_google.tpu.autoload()
for size in range(3, 11):
    begin = threading.Barrier(8)
    sums = {}
    def work(number):
        x = torch.full((size, size), float(number)).to("tpu")
        begin.wait()
        for _ in range(20):
            x.t().mul_(1.0)
        sums[number] = x.sum().item()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert sums == {number: size * size * number for number in range(8)}, sums
"""


@pytest.mark.full
def test_a_program_that_many_threads_build_at_once_is_replaced_whole() -> None:
    """Another thread may look up a replaced program while the program's destructor runs Python."""
    done = subprocess.run(
        [sys.executable, "-c", _AT_ONCE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


@torch_google.tpu.custom_kernel("robustness::no_such_target")
def _kernel(x: torch.Tensor) -> torch.Tensor:
    return jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


@pytest.mark.parametrize("mode", MODES)
def test_what_xla_cannot_compile_leaves_tensors_and_random_numbers_usable(mode: Any) -> None:
    x = torch.arange(3.0, device="tpu")
    view = x[1:]
    torch.manual_seed(3)
    expected = torch.rand(2, device="tpu").tolist()
    torch.manual_seed(3)
    with torch.tpu.eager_mode(mode):
        pending = x + 1
        for _ in range(2):
            with pytest.raises(Exception, match="no_such_target"):
                _kernel(x)
        assert torch.rand(2, device="tpu").tolist() == expected
        assert x.mul_(2).tolist() == [0.0, 2.0, 4.0]
        assert (view.tolist(), pending.tolist()) == ([2.0, 4.0], [1.0, 2.0, 3.0])
    assert torch.tpu.get_eager_mode() == "strict"


@pytest.mark.parametrize("mode", MODES)
def test_a_failed_compilation_changes_nothing_that_is_written_or_drawn(
    monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise jax.errors.JaxRuntimeError("INTERNAL: the compiler failed")

    _C.clear_programs()  # so that each mode has to compile the operators below
    x = torch.arange(4.0, device="tpu")
    view, version = x[1:3], x._version
    three, one = (torch.full((2,), value, device="tpu") for value in (3.0, 1.0))
    state = torch.tpu.get_rng_state()
    with torch.tpu.eager_mode(mode):
        with monkeypatch.context() as patch:
            patch.setattr(compiler, "compiled", fail)
            attempts: list[Callable[[], Any]] = [lambda: view.atan2_(three), view.cauchy_]
            for attempt in attempts:
                with pytest.raises(RuntimeError, match="the compiler failed"):
                    attempt()
        assert torch.equal(torch.tpu.get_rng_state(), state)
        assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
        assert x._version <= version + 2
        view.atan2_(one)
        assert x[1].item() == pytest.approx(torch.pi / 4)


def test_a_trace_that_xla_cannot_compile_gives_the_same_values_and_random_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: fusion.Fusion) -> None:
        raise jax.errors.JaxRuntimeError("INTERNAL: the compiler failed")

    def work() -> list[list[float]]:
        torch.manual_seed(5)
        x = torch.arange(5.0, device="tpu")
        noise = torch.rand(5, device="tpu")
        x.add_(noise).mul_(2).sub_(1)
        return [x.tolist(), noise.tolist(), torch.rand(2, device="tpu").tolist()]

    reference = work()
    monkeypatch.setattr(fusion.Fusion, "lower", fail)
    with torch.tpu.eager_mode("fused"):
        for _ in range(3):
            for actual, expected in zip(work(), reference, strict=True):
                assert actual == pytest.approx(expected, rel=1e-6)
            torch.tpu.wait_for_compiles()
    done = torch.tpu.metrics()
    assert done.fused_misses > 0
    assert done.fused_hits == 0


def test_a_graph_that_xla_cannot_compile_writes_and_draws_nothing() -> None:
    torch._dynamo.reset()
    x = torch.arange(3.0, device="tpu")

    def work(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return _kernel(x + torch.rand_like(x))

    state = torch.tpu.get_rng_state()
    for _ in range(2):
        with pytest.raises(Exception, match="no_such_target"):
            torch.compile(work)(x)
        assert x.tolist() == [0.0, 1.0, 2.0]
        assert torch.equal(torch.tpu.get_rng_state(), state)
    assert torch.compile(lambda x: x.mul_(2))(x).tolist() == [0.0, 2.0, 4.0]
    assert x.tolist() == [0.0, 2.0, 4.0]


@pytest.mark.parametrize("mode", MODES)
def test_modes_nest_and_what_raises_restores_them(mode: Any) -> None:
    def fail() -> None:
        with torch.tpu.eager_mode("fused"), torch.tpu.eager_mode("debug"):
            raise KeyError(torch.tpu.get_eager_mode())

    three, four = torch.ones(3, device="tpu"), torch.ones(4, device="tpu")
    context = torch.tpu.eager_mode(mode)
    with context, context:  # the same context manager can be entered twice
        with torch.tpu.cache_only(), torch.tpu.precision("highest"):
            with pytest.raises(KeyError, match="debug"):
                fail()
            assert torch.tpu.get_eager_mode() == mode
            with pytest.raises(RuntimeError, match="must match"):
                three + four
        assert torch.tpu.get_eager_mode() == mode
        assert (_C.cache_only(), torch.tpu.get_precision()) == (False, "default")
        x = torch.ones(2, device="tpu", requires_grad=True)
        modes: list[str] = []
        y = x * 2
        y.register_hook(lambda grad: modes.append(torch.tpu.get_eager_mode()))
        y.sum().backward()
        assert modes == [mode]
    assert torch.tpu.get_eager_mode() == "strict"
    torch.tpu.set_eager_mode(mode)
    try:
        with torch.tpu.eager_mode("debug"):
            assert torch.tpu.get_eager_mode() == "debug"
        assert torch.tpu.get_eager_mode() == mode
    finally:
        torch.tpu.set_eager_mode("strict")


def _run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from torch_google.tpu import autoload; autoload()\n" + program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


_LOADER = """
import torch
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    x = torch.ones(3, device="tpu")
    data = TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    loader = DataLoader(data, batch_size=2, num_workers=2, multiprocessing_context="spawn",
                        pin_memory=True,
                        **{"pin_memory_device": "tpu"} if torch.__version__ < (2, 7) else {})
    total = 0.0
    for rows, labels in loader:
        assert rows.is_pinned() and labels.is_pinned(), "pinned"
        total += (rows.to("tpu", non_blocking=True).sum() * labels.to("tpu").sum()).item()
    print(total)
"""


@pytest.mark.full
def test_a_loader_with_workers_and_pinned_memory() -> None:
    done = _run(_LOADER)
    assert done.stdout == "458.0\n", done.stderr


_EXIT = """
import torch
x = torch.randn(16, 16, device="tpu", requires_grad=True)
(x @ x).sum().backward()
torch.kept = x  # like a module's global, it lives until the interpreter exits
big = [torch.ones(256, 256, device="tpu") @ torch.ones(256, 256, device="tpu") for _ in range(50)]
event = torch.Event("tpu")
event.record()
print("done")
"""


def test_exit_with_live_tensors_and_work_in_flight() -> None:
    done = _run(_EXIT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
