# SPDX-License-Identifier: Apache-2.0
"""Writes to a few elements of a large storage do not copy it, and nobody else sees the write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
import torch

from torch_google.tpu import _C
from torch_google.tpu.eager import CompiledOp
from torch_google.tpu.interop import to_jax

# Storages of this many float32 elements are large enough.
_SIZE = 1 << 18
# Enough calls to compile and try the donating variant.
_CALLS = 12

Write = Callable[[torch.Tensor], Any]


@pytest.fixture(params=["programs", "cpu_kernels"])
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run all operators as compiled programs or, in a second run, on CPU kernels."""
    before = torch.tpu.get_cpu_kernels()
    torch.tpu.set_cpu_kernels(request.param == "cpu_kernels")
    yield request.param
    torch.tpu.set_cpu_kernels(before)


def _rows(like: torch.Tensor) -> torch.Tensor:
    return torch.linspace(-1.0, 1.0, 4 * 512, device="cpu").reshape(4, 512).to(like.device)


def _index(like: torch.Tensor) -> torch.Tensor:
    return torch.tensor([7, 2, 5, 1], device=like.device)


# Each function writes to some elements of a tensor of the shape (512, 512).
_WRITES: dict[str, Write] = {
    "copy_": lambda x: x[3:7].copy_(_rows(x)),
    "copy_ to a column": lambda x: x[:, 9].copy_(_rows(x)[0]),
    "copy_ to a transposed block": lambda x: x.t()[10:14].copy_(_rows(x)),
    "copy_ of bfloat16": lambda x: x[3:7].copy_(_rows(x).bfloat16()),
    "mul out": lambda x: torch.mul(_rows(x), 0.5, out=x[3:7]),
    "mul out to a flat view": lambda x: torch.mul(
        _rows(x), torch.tensor(0.5), out=x.view(-1)[1001 : 1001 + 2048].view(4, 512)
    ),
    "add_": lambda x: x[3:7].add_(_rows(x), alpha=0.1),
    "div_": lambda x: x.view(-1)[1001:3049].div_(1.5),
    "add_ of itself": lambda x: x[3:7].add_(x[3:7]),
    "masked_fill_": lambda x: x[3:7].masked_fill_(_rows(x) > 0, 2.0),
    "zero_": lambda x: x[3:7].zero_(),
    "fill_": lambda x: x[:, 100:110].fill_(3.0),
    "setitem": lambda x: x.__setitem__((slice(4), slice(8, 12)), 1.5),
    "index_copy_": lambda x: x.index_copy_(0, _index(x), _rows(x)),
    "index_add_": lambda x: x.index_add_(0, _index(x), _rows(x)),
    "index_fill_": lambda x: x.index_fill_(1, _index(x), 4.0),
    "index_put_": lambda x: x.__setitem__(_index(x), _rows(x)),
    "scatter_": lambda x: x.scatter_(0, _index(x)[:, None].expand(4, 512), _rows(x)),
    "scatter_add_": lambda x: x.scatter_add_(0, _index(x)[:, None].expand(4, 512), _rows(x)),
}
# Programs never donate an array that they also read through another argument. CPU kernels do not
# run index_put_ in place, because its indices may be invalid.
_COPIED = {("programs", "add_ of itself"), ("cpu_kernels", "index_put_")}


def _start(device: str) -> torch.Tensor:
    return torch.linspace(-3.0, 3.0, _SIZE, device="cpu").reshape(512, 512).to(device)


@pytest.mark.parametrize("name", _WRITES)
def test_values_are_those_of_the_cpu(name: str, way: str) -> None:
    mine, reference = _start("tpu"), _start("cpu")
    flat = mine.view(-1)
    for _ in range(_CALLS):
        _WRITES[name](mine)
        _WRITES[name](reference)
    torch.testing.assert_close(mine.cpu(), reference)
    assert torch.equal(flat.cpu(), mine.cpu().view(-1))
    in_place = torch.tpu.metrics().in_place
    assert in_place == 0 if (way, name) in _COPIED else in_place >= 2


@pytest.mark.parametrize("name", ["copy_", "add_", "index_copy_"])
def test_other_owners_of_the_values_do_not_see_a_write(name: str, way: str) -> None:
    mine, reference = _start("tpu"), _start("cpu")
    for _ in range(_CALLS):
        array = to_jax(mine)
        clone = mine.clone()
        saved = mine.cpu()
        _WRITES[name](mine)
        assert np.array_equal(np.asarray(array), saved.numpy())
        assert torch.equal(clone.cpu(), saved)
        _WRITES[name](reference)
        torch.testing.assert_close(mine.cpu(), reference)


def test_a_gradient_that_needs_the_old_values_is_an_error(way: str) -> None:
    parameter = torch.ones(512, 512, device="tpu", requires_grad=True)
    x = _start("tpu")
    for _ in range(_CALLS):
        loss = (parameter * x).sum()
        x[3:7].copy_(_rows(x))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_threads_write_to_their_own_parts(way: str) -> None:
    x = torch.zeros(8, _SIZE // 8, device="tpu")
    errors: list[BaseException] = []

    def work(row: int) -> None:
        try:
            for step in range(1, 120):
                x[row].fill_(float(step))
                assert x[row, 5].item() == step
                assert x.cpu()[row].eq(step).all()
                if step % 10 == 0:
                    x[row].add_(x[row])
                    assert x[row, -1].item() == 2 * step
        except BaseException as error:  # noqa: BLE001 - the main thread reports it
            errors.append(error)

    threads = [threading.Thread(target=work, args=(row,)) for row in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert torch.equal(x.cpu(), torch.full((8, _SIZE // 8), 119.0))


def test_a_small_storage_is_copied() -> None:
    x = torch.zeros(64, 64, device="tpu")
    for _ in range(_CALLS):
        x[3].fill_(1.0)
    assert torch.tpu.metrics().in_place == 0
    assert x.sum().item() == 64


def test_a_write_to_most_of_a_storage_is_no_partial_write() -> None:
    x = _start("tpu")
    for _ in range(_CALLS):
        x[:400].mul_(1.5)
    assert torch.tpu.metrics().in_place == 0


def test_the_donating_variant_is_cached(tmp_path: Path) -> None:
    torch.tpu.set_compile_cache(tmp_path)
    try:
        _fill_before_and_after_eviction()
    finally:
        torch.tpu.set_compile_cache(None)


def _fill_before_and_after_eviction() -> None:
    x = _start("tpu")
    for _ in range(_CALLS):
        x[5:9].fill_(2.0)
    assert torch.tpu.metrics().in_place > 0
    _C.clear_programs()
    torch.tpu.reset_metrics()
    for _ in range(_CALLS):
        x[5:9].fill_(2.0)
    assert torch.tpu.metrics().in_place > 0
    assert torch.tpu.metrics().compiles == 0


def _failing(error: Exception, *, deletes: bool) -> Callable[..., Any]:
    """Return a replacement for CompiledOp.donating whose program fails."""

    class Program:
        def __call__(self, *args: Any) -> Any:
            if deletes:
                args[0].delete()
            raise error

        def memory_analysis(self) -> None:
            return None

    return lambda *_: Program()


@pytest.mark.parametrize("deletes", [False, True])
def test_a_variant_that_fails_loses_nothing(monkeypatch: pytest.MonkeyPatch, deletes: bool) -> None:
    error = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: a test")
    monkeypatch.setattr(CompiledOp, "donating", _failing(error, deletes=deletes))
    x, reference = _start("tpu"), _start("cpu")
    for value in range(_CALLS):
        x[21:25].fill_(float(value))
        reference[21:25].fill_(float(value))
        assert torch.equal(x.cpu(), reference)
    assert torch.tpu.metrics().in_place == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_exception_before_the_first_run_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    x = _start("tpu")
    raised: list[bool] = []
    row = 61 if error is KeyboardInterrupt else 81  # two programs, each with its own first run

    def array(values: Any) -> Any:
        if not raised:
            raised.append(True)
            raise error
        return np.asarray(values).copy()

    monkeypatch.setattr("torch_google.tpu.fused.fusion.np", SimpleNamespace(array=array))
    for value in range(_CALLS):
        try:
            x[row : row + 4].fill_(float(value))
        except KeyboardInterrupt:
            assert error is KeyboardInterrupt
            x[row : row + 4].fill_(float(value))
        assert x[row + 3, 511].item() == value
        assert x[row + 4, 0].item() == pytest.approx(_start("cpu")[row + 4, 0].item())
    assert raised


def test_an_unexpected_error_in_the_variant_leaves_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch_google.tpu.program.fenced", lambda _: 1 / 0)
    x = _start("tpu")
    for value in range(_CALLS):
        x[71:75].fill_(float(value))
        assert x[74, 511].item() == value
    assert torch.tpu.metrics().in_place == 0


def test_kernels_do_not_overwrite_their_own_index() -> None:
    torch.tpu.set_cpu_kernels(True)
    try:
        other = torch.tensor([0, 9, 1, 9, 2, 9], device="tpu")[::2]
        base = torch.tensor([0, 7, 1, 7, 2, 7], device="tpu")
        for _ in range(3):
            torch.zeros(6, dtype=torch.int64, device="tpu")[::2].index_fill_(0, other, 100)
        base[::2].index_fill_(0, base[::2], 100)
        assert base.tolist() == [100, 7, 100, 7, 100, 7]
    finally:
        torch.tpu.set_cpu_kernels(False)


def test_a_read_during_the_write_in_the_same_thread_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    x = _start("tpu")
    errors = []

    class Program:
        def __call__(self, *_: Any) -> Any:
            try:
                x[0, 0].item()  # as a signal handler might
            except RuntimeError as error:
                errors.append(str(error))
            raise jax.errors.JaxRuntimeError("a test")

        def memory_analysis(self) -> None:
            return None

    monkeypatch.setattr(CompiledOp, "donating", lambda *_: Program())
    for value in range(_CALLS):
        x[51:55].fill_(float(value))
        assert x[54, 511].item() == value
    assert len(errors) == 1
    assert "was read while an operator of the same thread was writing to it" in errors[0]


def test_an_error_of_the_compiler_leaves_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no memory for this program")

    x = _start("tpu")
    x[31:35].fill_(0.0)
    monkeypatch.setattr("torch_google.tpu.runtime.compiler.compiled", refuse)
    monkeypatch.setattr("torch_google.tpu.runtime.compiler.find_entry", lambda *_: None)
    for value in range(_CALLS):
        x[31:35].fill_(float(value))
        assert x[34, 511].item() == value
    assert torch.tpu.metrics().in_place == 0


def test_an_interruption_is_raised_after_the_write(monkeypatch: pytest.MonkeyPatch) -> None:
    x = _start("tpu")
    original = CompiledOp.donating

    def interrupted(self: CompiledOp, position: int) -> Any:
        program: Any = original(self, position)

        class Program:
            def __call__(self, *args: Any) -> Any:
                results = program(*args)
                if not raised:
                    raised.append(True)
                    raise KeyboardInterrupt
                return results

            def memory_analysis(self) -> None:
                return None

        return Program()

    raised: list[bool] = []
    monkeypatch.setattr(CompiledOp, "donating", interrupted)
    caught = 0
    for value in range(_CALLS):
        try:
            x[41:45].fill_(float(value))
        except KeyboardInterrupt:
            caught += 1
            x[41:45].fill_(float(value))
        assert x[44, 511].item() == value
        assert x[45, 0].item() == pytest.approx(_start("cpu")[45, 0].item())
    assert caught == 1


def test_kernels_leave_the_values_if_an_index_is_invalid() -> None:
    torch.tpu.set_cpu_kernels(True)
    try:
        x, copy = _start("tpu"), _start("tpu")
        for _ in range(3):
            x.index_copy_(0, _index(x), _rows(x))
        torch.tpu.set_cpu_kernels(False)
        copy.index_copy_(0, _index(x), _rows(x))
        torch.tpu.set_cpu_kernels(True)
        wrong = torch.tensor([7, 2, 600, 1], device="tpu")
        x.index_copy_(0, wrong, _rows(x) + 1)
        torch.tpu.set_cpu_kernels(False)
        copy.index_copy_(0, wrong, _rows(x) + 1)
        assert torch.equal(x.cpu(), copy.cpu())
    finally:
        torch.tpu.set_cpu_kernels(False)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_an_out_argument_of_another_size_is_resized(way: str) -> None:
    a = torch.arange(6.0, device="tpu")
    out = torch.zeros(6, device="tpu")
    for _ in range(3):
        torch.add(a, 1.0, out=out)
    torch.add(a[:2], 1.0, out=out)
    assert out.tolist() == [1.0, 2.0]
    torch.add(a.reshape(2, 3), a[:3], out=out)
    assert out.tolist() == [[0.0, 2.0, 4.0], [3.0, 5.0, 7.0]]
    whole = torch.zeros(3, dtype=torch.int64, device="tpu")
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.add(a[:3], 1.0, out=whole)
    assert whole.tolist() == [0, 0, 0]
