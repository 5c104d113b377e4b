# SPDX-License-Identifier: Apache-2.0
"""Debug mode rejects the same values as the CPU. Errors include the value and the source line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional

# Each function indexes a dimension of size three.
FROM_0: dict[str, Callable[[Tensor], object]] = {
    "embedding": lambda index: functional.embedding(index, _rows(index)),
    "embedding_bag": lambda index: functional.embedding_bag(index, _rows(index), index * 0),
    "embedding with max_norm": lambda index: functional.embedding(
        index, _rows(index), max_norm=1.0
    ),
    "gather": lambda index: _three(index).gather(0, index),
    "index_select": lambda index: _rows(index).index_select(0, index),
    "index_add": lambda index: _three(index).index_add(0, index, index),
    "index_add_ to a view": lambda index: _rows(index).T[0].index_add_(0, index, index.float()),
    "index_copy": lambda index: _three(index).index_copy(0, index, index),
    "index_reduce": lambda index: _three(index).index_reduce(0, index, index, "prod"),
    "scatter": lambda index: _three(index).scatter(0, index, index),
    "scatter_ of a number": lambda index: _three(index).scatter_(0, index, 1),
    "scatter of a number, added": lambda index: _three(index).scatter(0, index, 1, reduce="add"),
    "scatter_add": lambda index: _three(index).scatter_add(0, index, index),
    "scatter_reduce": lambda index: _three(index).scatter_reduce(0, index, index, "sum"),
    "cross_entropy": lambda index: functional.cross_entropy(_rows(index)[:1], index),
    "nll_loss of one row": lambda index: functional.nll_loss(_three(index).float(), index[0]),
    "nll_loss of images": lambda index: functional.nll_loss(
        torch.ones(1, 3, 2, 2, device=index.device), index.reshape(1, 1, 1).expand(1, 2, 2)
    ),
    "multi_margin_loss": lambda index: functional.multi_margin_loss(_rows(index)[:1], index),
}
WRAPS: dict[str, Callable[[Tensor], object]] = {
    "index": lambda index: _three(index)[index],
    "index behind a slice": lambda index: _rows(index)[:, index],
    "index beside a mask": lambda index: torch.ones(2, 3, device=index.device)[
        torch.tensor([False, True], device=index.device), index
    ],
    "index_put_": lambda index: _three(index).index_put_((index,), index),
    "assignment": lambda index: _three(index).__setitem__(index, 1),
    "index_fill": lambda index: _three(index).index_fill(0, index, 1),
    "take": lambda index: _three(index).take(index),
    "put_": lambda index: _three(index).put_(index, index),
}
# Each function divides by its argument.
QUOTIENTS: dict[str, Callable[[Tensor], object]] = {
    "//": lambda by: _three(by) // by,
    "// a number": lambda by: _three(by) // int(by[0]),
    "a number //": lambda by: 5 // by,
    "%": lambda by: _three(by) % by,
    "% a number": lambda by: _three(by) % int(by[0]),
    "a number %": lambda by: 5 % by,
    "remainder_": lambda by: _three(by).remainder_(by),
    "remainder out=": lambda by: torch.remainder(_three(by), by, out=torch.empty_like(_three(by))),
    "fmod": lambda by: torch.fmod(_three(by), by),
    "fmod of a number": lambda by: torch.fmod(_three(by), int(by[0])),
    "floor": lambda by: torch.div(_three(by), by, rounding_mode="floor"),
    "trunc": lambda by: torch.div(_three(by), int(by[0]), rounding_mode="trunc"),
    "bytes": lambda by: _three(by).to(torch.uint8) // by.to(torch.uint8),
}
# Each function divides an empty tensor by 0.
NOTHING: dict[str, Callable[[Tensor], object]] = {
    "% 0": lambda like: _three(like)[:0] % 0,
    "// 0": lambda like: _three(like)[:0] // 0,
    "fmod": lambda like: torch.fmod(_three(like)[:0], 0),
    "broadcast": lambda like: _three(like)[:0, None] // (_three(like) * 0),
    "take_along_dim": lambda like: torch.take_along_dim(like[:0], like[:0].argsort(), 0),
}


def _three(like: Tensor) -> Tensor:
    return torch.arange(1, 4, device=like.device)


def _rows(like: Tensor) -> Tensor:
    return torch.ones(3, 3, device=like.device)


@pytest.fixture
def debug() -> Iterator[None]:
    with torch.tpu.eager_mode("debug"):
        yield


@pytest.mark.usefixtures("debug")
@pytest.mark.parametrize("name", [*FROM_0, *WRAPS])
def test_an_index_out_of_range_is_an_error_that_names_it_and_the_line(name: str) -> None:
    work = FROM_0.get(name) or WRAPS[name]
    inside = [0, 2] if name in FROM_0 else [-3, -1, 0, 2]
    low = -1 if name in FROM_0 else -4
    for index in inside:
        work(torch.tensor([index]))  # the CPU accepts every index in `inside`
        work(torch.tensor([index]).to("tpu"))
    for index in (3, low, 2**40, -(2**40)):
        with pytest.raises((IndexError, RuntimeError)):
            work(torch.tensor([index]))
        pattern = rf"{Path(__file__).name}:\d+: aten::\S+: (index|target) {index} is out of range"
        allowed = rf"for a size of 3. Use {low + 1} to 2$"
        with pytest.raises(IndexError, match=f"{pattern} {allowed}"):
            work(torch.tensor([index]).to("tpu"))
    work(torch.tensor([2]).to("tpu"))  # after the errors, a valid index still works


@pytest.mark.usefixtures("debug")
@pytest.mark.parametrize("name", QUOTIENTS)
def test_an_integer_is_not_divided_by_zero(name: str) -> None:
    work = QUOTIENTS[name]
    for divisor in (1, 3, 0):
        by = torch.full((3,), divisor)
        if divisor:
            work(by)
            work(by.to("tpu"))
            continue
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            work(by)
        with pytest.raises(RuntimeError, match=rf"{Path(__file__).name}:\d+: aten.*ZeroDivision"):
            work(by.to("tpu"))


@pytest.mark.usefixtures("debug")
@pytest.mark.parametrize("name", NOTHING)
def test_an_empty_tensor_is_divided_by_zero(name: str) -> None:
    for device in ("cpu", "tpu"):
        result = NOTHING[name](torch.arange(3, device=device))
        assert isinstance(result, Tensor)
        assert not result.numel()


@pytest.mark.usefixtures("debug")
def test_floats_are() -> None:
    x = torch.arange(3, device="tpu")
    assert (x / 0).tolist()[1:] == [torch.inf, torch.inf]
    assert (x // 0.0).tolist()[1:] == [torch.inf, torch.inf]
    assert (x.float() % 0).isnan().all()


@pytest.mark.usefixtures("debug")
def test_of_many_indices_the_first_that_is_wrong_is_named() -> None:
    table = torch.ones(5, 2, device="tpu")
    indices = torch.tensor([[0, 4, 1], [2, 9, -3]]).to("tpu")
    with pytest.raises(
        IndexError, match="aten::embedding: index 9 is out of range for a size of 5"
    ):
        functional.embedding(indices, table)


@pytest.mark.usefixtures("debug")
def test_what_is_ignored_may_be_any_number() -> None:
    x = torch.randn(3, 4, device="tpu", requires_grad=True)
    for ignored in (-100, -1, 99):
        target = torch.tensor([0, ignored, 3]).to("tpu")
        loss = functional.cross_entropy(x, target, ignore_index=ignored)
        expected = functional.cross_entropy(x.cpu(), target.cpu(), ignore_index=ignored)
        torch.testing.assert_close(loss.cpu(), expected)
        loss.backward()
    multilabel = torch.tensor([[1, -1, 0, 0]]).to("tpu")
    functional.multilabel_margin_loss(x[:1], multilabel)
    with pytest.raises(IndexError, match="target 4 is out of range"):
        functional.multilabel_margin_loss(x[:1], multilabel * 4)


@pytest.mark.usefixtures("debug")
def test_nothing_to_look_up_is_no_error() -> None:
    nothing = torch.empty(0, dtype=torch.int64, device="tpu")
    assert functional.embedding(nothing, torch.ones(3, 2, device="tpu")).shape == (0, 2)
    assert torch.ones(0, 2, device="tpu")[nothing].shape == (0, 2)
    with pytest.raises(RuntimeError, match="self indexing axis dim should be positive"):
        functional.embedding(nothing.new_zeros(1), torch.ones(0, 2, device="tpu"))


@pytest.mark.usefixtures("debug")
@pytest.mark.parametrize("values", [[], [1.0, 2.0, 3.0]])
def test_a_mask_puts_as_many_values_as_it_takes(values: list[float]) -> None:
    x, mask = torch.zeros(2, 3, device="tpu"), torch.tensor([True, False, True]).to("tpu")
    x[:, mask] = torch.tensor([4.0, 5.0]).to("tpu")
    x[:, mask] = 7 + torch.zeros(1, device="tpu")
    assert x.tolist() == [[7, 0, 7]] * 2
    with pytest.raises(
        RuntimeError, match=f"the mask selects 2 elements, but there are {len(values)} values"
    ):
        x[:, mask] = torch.tensor(values).to("tpu")


@pytest.mark.usefixtures("debug")
def test_a_mask_wants_as_many_values_as_it_has_places() -> None:
    x, mask = torch.zeros(3, device="tpu"), torch.tensor([True, False, True]).to("tpu")
    assert x.masked_scatter(mask, torch.ones(2, device="tpu")).tolist() == [1, 0, 1]
    with pytest.raises(RuntimeError, match="2 places are true in the mask, but the source has 1"):
        x.masked_scatter(mask, torch.ones(1, device="tpu"))


def _backward(y: Tensor) -> None:
    y.sum().backward()


def _gathered(x: Tensor, index: int) -> Tensor:
    return x.gather(0, torch.tensor([index]).to("tpu"))


def _line(function: Callable[..., object]) -> str:
    """Return the file and line of a one-line function's body."""
    return f"{Path(__file__).name}:{function.__code__.co_firstlineno + 1}"


def test_an_error_of_a_backward_pass_names_the_line_that_asked_for_it() -> None:
    x = torch.ones(3, device="tpu", requires_grad=True)
    y = _gathered(x, 5)  # outside debug mode, the index is clamped
    message = r"aten::scatter_add\S*: index 5 is out of range"
    with (
        torch.tpu.eager_mode("debug"),
        pytest.raises(IndexError, match=rf"{_line(_backward)} \(.* GatherBackward0\): {message}"),
    ):
        _backward(y)


def test_an_error_of_a_backward_pass_names_the_forward_line_in_anomaly_mode() -> None:
    x = torch.ones(3, device="tpu", requires_grad=True)
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    try:
        y = _gathered(x, 5)
        places = rf"{_line(_backward)} \(.* GatherBackward0, made at \S*{_line(_gathered)}\): aten"
        with (
            torch.tpu.eager_mode("debug"),
            pytest.warns(UserWarning, match="Error detected in GatherBackward0"),
            pytest.raises(IndexError, match=places),
        ):
            _backward(y)
    finally:
        torch.autograd.set_detect_anomaly(False)


def test_of_two_threads_in_backward_passes_both_are_named() -> None:
    met, leave = threading.Barrier(2), threading.Event()
    waiting = torch.ones(1, requires_grad=True)
    waiting.register_hook(lambda _: (met.wait(), leave.wait(), None)[2])

    def elsewhere() -> None:
        waiting.sum().backward()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    met.wait()
    try:
        both = sorted([_line(_backward), _line(elsewhere)])
        y = _gathered(torch.ones(3, device="tpu", requires_grad=True), 5)
        with (
            torch.tpu.eager_mode("debug"),
            pytest.raises(IndexError, match=rf"{both[0]} or \S*{both[1]} \("),
        ):
            _backward(y)
    finally:
        leave.set()
        thread.join()


@pytest.mark.usefixtures("debug")
def test_what_was_to_be_written_is_as_it_was() -> None:
    x = torch.zeros(3, device="tpu")
    with pytest.raises(IndexError):
        x[torch.tensor([1, 3]).to("tpu")] = 1.0
    assert x.tolist() == [0, 0, 0]


def test_other_modes_clamp_and_compile_no_check() -> None:
    table = torch.arange(7.0).reshape(7, 1).to("tpu")
    indices = torch.tensor([6, 7, 100]).to("tpu")
    functional.embedding(indices, table)
    torch.tpu.reset_metrics()
    for mode in ("strict", "fused"):
        with torch.tpu.eager_mode(mode):
            assert functional.embedding(indices, table).flatten().tolist() == [6, 6, 6]
    assert torch.tpu.metrics().misses == 0
    with torch.tpu.eager_mode("debug"), pytest.raises(IndexError, match="index 7"):
        functional.embedding(indices, table)
    assert torch.tpu.metrics().misses == 0  # the operator's program is the same in all modes


@pytest.mark.usefixtures("debug")
def test_checks_are_compiled_once_and_are_programs_for_a_cache_only_thread() -> None:
    table, indices = torch.ones(11, 3, device="tpu"), torch.tensor([1, 2]).to("tpu")
    with torch.tpu.eager_mode("strict"):
        table[indices]
    with pytest.raises(torch.tpu.CacheMissError, match="the check of aten::index"):  # noqa: SIM117
        with torch.tpu.cache_only():
            table[indices]
    table[indices]
    torch.tpu.reset_metrics()
    with torch.tpu.cache_only():
        for _ in range(3):
            table[indices]
    assert torch.tpu.metrics().compiles == 0
