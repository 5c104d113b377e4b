# SPDX-License-Identifier: Apache-2.0
"""Graphs whose sizes change run on torch's CPU kernels, unless the user has disabled these."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (torch's own name for it)

from torch_google.tpu.compile import random_graphs, random_graphs_test


@pytest.fixture(autouse=True)
def cpu_kernels() -> Iterator[None]:
    before = torch.tpu.get_cpu_kernels()
    torch.tpu.set_cpu_kernels(True)
    torch._dynamo.reset()
    torch.tpu.reset_metrics()
    yield
    torch.tpu.set_cpu_kernels(before)


def _compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(function, dynamic=True, fullgraph=True, backend="tpu", **options)


def _count(event: str) -> int:
    return torch.tpu.metrics().graphs.get(event, 0)


def _numbers(*sizes: int) -> torch.Tensor:
    return torch.linspace(-1, 1, torch.Size(sizes).numel()).reshape(sizes)


class _Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(16, 8)
        self.norm = torch.nn.LayerNorm(8)
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        positions = torch.arange(length, device=tokens.device, dtype=torch.float32)
        x = self.embedding(tokens) * positions[:, None].cos() / length
        scores = (x @ x.transpose(1, 2)).softmax(-1)
        return self.down(F.silu(self.up(self.norm(scores @ x))))


def _tokens(length: int) -> torch.Tensor:
    return (torch.arange(2 * length) % 16).reshape(2, length)


@pytest.mark.parametrize("setting", [None, True])
def test_new_sizes_compile_nothing(setting: bool | None) -> None:
    torch.tpu.set_cpu_kernels(setting)
    torch.manual_seed(0)
    expected = _Model()
    actual = _Model().to("tpu")
    actual.load_state_dict(expected.state_dict())
    run = _compiled(actual)
    compiles = []
    for length in (5, 9, 12, 7, 30, 2):
        tokens = _tokens(length)
        a, b = expected(tokens), run(tokens.to("tpu"))
        torch.testing.assert_close(b.cpu(), a)
        assert b.stride() == a.stride()
        a.square().mean().backward()
        b.square().mean().backward()
        for (name, x), y in zip(expected.named_parameters(), actual.parameters(), strict=True):
            assert x.grad is not None
            assert y.grad is not None
            torch.testing.assert_close(y.grad.cpu(), x.grad, msg=name)
            x.grad = y.grad = None
        compiles.append(_count("compile"))
    assert compiles == [2] * 6  # the forward and the backward program of the first length
    assert _count("cpu_kernels") == 10
    assert _count("cpu_kernels_refused") == 0
    assert torch.tpu.metrics().exact == {}


def test_sizes_that_recur_get_a_program() -> None:
    run = _compiled(lambda x: x.sin() + x.shape[0])
    calls = []
    for length in (3, 4, 4, 4, 4, 3, 5):
        x = _numbers(length)
        torch.testing.assert_close(run(x.to("tpu")).cpu(), x.sin() + length)
        calls.append((_count("cpu_kernels"), _count("call"), _count("compile")))
    # The third call with four elements compiles a program. Three elements still have the first one.
    expected = [(0, 1, 1), (1, 1, 1), (2, 1, 1), (2, 2, 2), (2, 3, 2), (2, 4, 2), (3, 4, 2)]
    assert calls == expected


def test_the_number_of_programs_is_bounded() -> None:
    run = _compiled(lambda x: x.cos())
    for _ in range(10):
        for length in range(2, 22):
            run(_numbers(length).to("tpu"))
    assert _count("compile") == 1 + 8
    assert _count("cpu_kernels") + _count("call") == 200


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.dropout(x, 0.0) + torch.rand_like(x) * 0,
        lambda x: x.sort().values,
        lambda x: (x * 10).to(torch.int32),
        lambda x: torch.linalg.inv(x[:2, None] * 0 + torch.eye(2, device=x.device)),
    ],
)
def test_other_graphs_run_as_programs(function: Callable[..., Any]) -> None:
    run = _compiled(function)
    for length in (4, 6, 11):
        x = _numbers(length, 2)
        torch.testing.assert_close(run(x.to("tpu")).cpu(), function(x))
    assert _count("cpu_kernels") == 0
    assert _count("cpu_kernels_refused") == 1


def test_by_default_attention_in_a_graph_runs_on_kernels() -> None:
    torch.tpu.set_cpu_kernels(None)
    run = _compiled(lambda q: F.scaled_dot_product_attention(q, q, q))
    for length in (5, 9, 12, 7):
        q = _numbers(2, 3, length, 8)
        torch.testing.assert_close(run(q.to("tpu")).cpu(), F.scaled_dot_product_attention(q, q, q))
    assert _count("compile") == 1
    assert _count("cpu_kernels") == 3


def test_eager_calls_between_graphs_with_new_sizes_stay_on_kernels() -> None:
    torch.tpu.set_cpu_kernels(None)
    run = _compiled(lambda x: x.sin().sum())
    for length in range(4, 16):
        x = _numbers(length)
        assert run(x.to("tpu")).exp().item() == pytest.approx(x.sin().sum().exp().item())
    assert _count("cpu_kernels") > 8
    metrics = torch.tpu.metrics()
    assert (metrics.compiles, metrics.cpu_kernels) == (_count("compile"), 12)


def test_settings_that_ask_for_programs() -> None:
    torch.tpu.set_cpu_kernels(False)
    run = _compiled(lambda x: x + 1)
    explicit = _compiled(lambda x: x + 2, options={"buckets": [16, 64]})
    for length in (4, 6, 11):
        run(_numbers(length).to("tpu"))
    torch.tpu.set_cpu_kernels(True)
    for length in (4, 6, 11):
        explicit(_numbers(length).to("tpu"))
    assert _count("cpu_kernels") == 0
    run(_numbers(12).to("tpu"))
    assert _count("cpu_kernels") == 0  # the first size since kernels are enabled
    run(_numbers(13).to("tpu"))
    assert _count("cpu_kernels") == 1


def test_writes() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        old = x + y
        x.mul_(2)
        y.copy_(x[::2].sum(0))
        return old

    run = _compiled(function)
    for length in (4, 6, 8, 9):
        xs = [_numbers(length, 3), _numbers(2 * length, 6)[::2, ::2]]
        for x in xs:
            y = torch.ones(3)
            storage = torch.empty(x.untyped_storage().nbytes() // 4).copy_(
                torch.as_strided(x, (x.untyped_storage().nbytes() // 4,), (1,))
            )
            device_storage = storage.to("tpu")
            device_x = device_storage.as_strided(x.shape, x.stride())
            device_y = y.to("tpu")
            copy = device_x.detach().clone()
            kept = copy.cpu()
            before = device_x._version
            a, b = function(x, y), run(device_x, device_y)
            torch.testing.assert_close(b.cpu(), a)
            torch.testing.assert_close(device_x.cpu(), x)
            torch.testing.assert_close(device_y.cpu(), y)
            torch.testing.assert_close(copy.cpu(), kept)
            assert device_x._version > before
            whole = torch.as_strided(x, storage.shape, (1,))
            torch.testing.assert_close(device_storage.cpu(), whole)
    assert _count("cpu_kernels") > 0


def test_a_write_does_not_reach_other_owners_of_the_memory() -> None:
    def scale(x: torch.Tensor) -> None:
        x.mul_(2)

    run = _compiled(scale)
    run(_numbers(3).to("tpu"))
    for length in (4, 5, 6):
        x = _numbers(length).to("tpu")
        x += 1  # the values are now in the memory of a CPU kernel's result
        exported = x.cpu()
        saved = exported.clone()
        run(x)
        torch.testing.assert_close(exported, saved)
        torch.testing.assert_close(x.cpu(), saved * 2)
    assert _count("cpu_kernels") == 3


def test_an_error_in_a_kernel_writes_nothing() -> None:
    def function(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x.index_select(0, index)

    run = _compiled(function)
    for length in (3, 4):
        run(_numbers(length).to("tpu"), torch.zeros(length, dtype=torch.int64, device="tpu"))
    assert _count("cpu_kernels") == 1
    x = _numbers(5).to("tpu")
    result = run(x, torch.full((5,), 100, device="tpu"))
    # A program clamps the index.
    torch.testing.assert_close(result.cpu(), torch.full((5,), 2.0))
    torch.testing.assert_close(x.cpu(), _numbers(5) + 1)
    assert _count("cpu_kernels") == 1


def test_results_have_their_own_memory() -> None:
    def function(x: torch.Tensor) -> Sequence[torch.Tensor]:
        y = x * 2
        return y, y.t(), x[1:] + 0, y[:, 1:], x.expand(2, *x.shape)

    run = _compiled(function)
    for length in (3, 4, 5):
        x = _numbers(length, 3)
        device_x = x.to("tpu")
        expected, actual = function(x), run(device_x)
        for a, b in zip(expected, actual, strict=True):
            torch.testing.assert_close(b.cpu(), a)
            assert b.stride() == a.stride()
        expected[0].add_(1)
        actual[0].add_(1)
        for a, b in zip(expected, actual, strict=True):
            torch.testing.assert_close(b.cpu(), a)
        torch.testing.assert_close(device_x.cpu(), x)


def test_saved_tensors_are_freed() -> None:
    weight = torch.ones(4, 4, device="tpu", requires_grad=True)
    run = _compiled(lambda x, w: ((x @ w).sin().exp() @ w).cos())

    def step(length: int) -> None:
        run(_numbers(length, 4).to("tpu"), weight).sum().backward()
        weight.grad = None

    for length in (3, 4):
        step(length)
    gc.collect()
    before = torch.tpu.memory_allocated()
    for length in range(5, 12):
        step(length)
    gc.collect()
    assert torch.tpu.memory_allocated() == before
    assert _count("cpu_kernels") == 16


def test_threads_share_a_graph() -> None:
    run = _compiled(lambda x: (x.sin() @ x.t()).cumsum(0))
    for length in (2, 3):
        run(_numbers(length, 4).to("tpu"))
    errors: list[BaseException] = []

    def work(offset: int) -> None:
        try:
            for length in range(4 + offset, 40, 2):
                x = _numbers(length, 4)
                expected = (x.sin() @ x.t()).cumsum(0)
                torch.testing.assert_close(run(x.to("tpu")).cpu(), expected)
        except BaseException as error:  # noqa: BLE001 - reported below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(offset,)) for offset in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert _count("compile") == 1


def test_autocast_and_dispatch_modes_do_not_reach_the_kernels() -> None:
    run = _compiled(lambda x: x @ x.t())
    for length in (3, 4, 5):
        x = _numbers(length, 4)
        with torch.autocast("cpu"), torch.inference_mode():
            result = run(x.to("tpu"))
        assert result.dtype == torch.float32
        torch.testing.assert_close(result.cpu(), x @ x.t())
    assert _count("cpu_kernels") == 2


@pytest.mark.parametrize("name", sorted(random_graphs.STEPS)[::4])
def test_random_graphs(name: str) -> None:
    candidates = [random_graphs.GraphStep(name, 0, s, a, b) for a, b, s in ((0, 0, 0), (2, 2, 3))]
    steps = random_graphs.possible(candidates)
    random_graphs_test.check(steps)


def test_a_copy_in_a_graph_has_an_offset_of_its_own() -> None:
    def work(x: torch.Tensor) -> torch.Tensor:
        copied = x[2:].clone(memory_format=torch.contiguous_format)
        return torch.as_strided(copied, (2, 2), (4, 1), 0) * 2

    compiled = torch.compile(work, dynamic=True)
    for length in (5, 6, 7, 8):
        x = torch.arange(4.0 * length).reshape(length, 4)
        assert torch.equal(compiled(x.to("tpu")).cpu(), work(x))


def test_a_read_while_a_backward_pass_frees_the_tensor() -> None:
    """A read gives the memory no owner that only the holder of the GIL can drop."""
    stop = threading.Event()

    def create() -> None:
        x = torch.ones(64, device="tpu")
        while not stop.is_set():
            x + 1

    other = threading.Thread(target=create)
    other.start()
    try:
        for _ in range(2000):
            x = torch.ones(64, device="tpu", requires_grad=True)
            y = x.exp()
            y.detach().cpu()
            y.sum().backward()
    finally:
        stop.set()
        other.join()


def test_writes_are_in_place_after_a_read() -> None:
    x = torch.ones(1 << 12, device="tpu")
    x.add_(1)
    torch.tpu.reset_metrics()
    for _ in range(5):
        x.cpu()
        x.add_(1)
    assert torch.tpu.metrics().in_place == 5


def test_a_device_without_an_index_is_the_graph_s() -> None:
    compiled = torch.compile(lambda x: x + torch.arange(x.shape[0], device="tpu"), dynamic=True)
    for length in (5, 6, 7):
        assert compiled(torch.ones(length, device="tpu"))[-1].item() == length
    assert torch.tpu.metrics().graphs["cpu_kernels"] == 2
