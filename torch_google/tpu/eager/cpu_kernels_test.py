# SPDX-License-Identifier: Apache-2.0
"""Operators behave the same with torch's CPU kernels as with compiled programs."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from torch_google.tpu import _C
from torch_google.tpu.eager import cpu_kernels

_DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.complex128, torch.complex64, torch.bool),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
    *(torch.uint16, torch.uint32, torch.uint64),
]


@pytest.fixture(autouse=True)
def _enabled() -> Iterator[None]:
    before = torch.tpu.get_cpu_kernels()
    torch.tpu.set_cpu_kernels(True)
    yield
    torch.tpu.set_cpu_kernels(before)
    torch.tpu.set_eager_mode("strict")


def _both(function: Callable[[], Any]) -> tuple[Any, Any]:
    """Run a function with CPU kernels and with compiled programs, and return both results."""
    torch.tpu.set_cpu_kernels(True)
    calls = torch.tpu.metrics().cpu_kernels
    mine = function()
    assert torch.tpu.metrics().cpu_kernels > calls
    torch.tpu.set_cpu_kernels(False)
    compiled = function()
    torch.tpu.set_cpu_kernels(True)
    return mine, compiled


def _error(function: Callable[[], Any]) -> tuple[type[Exception], str] | None:
    try:
        function()
    except Exception as error:  # noqa: BLE001 - the test compares any error
        return type(error), str(error)
    return None


def _model() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = (torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16))
    return torch.nn.Sequential(torch.nn.Embedding(10, 8), *layers, torch.nn.Linear(16, 10))


def _step(model: torch.nn.Module, length: int, device: str) -> torch.Tensor:
    ids = torch.arange(2 * length).remainder(10).reshape(2, length).to(device)
    out = model(ids)
    loss = F.cross_entropy(out.flatten(0, 1), ids.flatten())
    loss.backward()
    return loss


def test_a_new_size_compiles_nothing() -> None:
    model = _model().to("tpu")
    for length in range(3, 9):
        loss = _step(model, length, "tpu").item()
        reference = _model()
        assert loss == pytest.approx(_step(reference, length, "cpu").item(), rel=1e-5)
    assert torch.tpu.metrics().compiles == 0


@pytest.mark.parametrize("mode", ["strict", "fused"])
def test_growing_sizes_compile_nothing_after_a_while(mode: str) -> None:
    torch.tpu.set_eager_mode(mode)
    cache = torch.ones(2, 3, device="tpu")
    token = torch.full((2, 1), 2.0, device="tpu")
    compiles = 0
    for step in range(80):
        cache = torch.cat((cache, token * 0.5), 1)
        weights = (cache + 1).softmax(1)
        assert weights.sum().item() == pytest.approx(2.0, rel=1e-5)
        if step == 16:
            torch.tpu.wait_for_compiles()
            compiles = torch.tpu.metrics().compiles
    torch.tpu.wait_for_compiles()
    assert torch.tpu.metrics().compiles == compiles
    assert cache.shape == (2, 83)


def test_fused_mode_compiles_what_recurs() -> None:
    torch.tpu.set_eager_mode("fused")
    x = torch.arange(12.0, device="tpu").reshape(3, 4)
    values = []
    for _ in range(6):
        y = x.sin() * 2
        values.append((y + y.t().sum()).sum().item())
    torch.tpu.wait_for_compiles()
    assert torch.tpu.metrics().compiles > 0
    assert values == pytest.approx([values[0]] * 6, rel=1e-5)


def test_strict_mode_gives_the_same_bits_in_every_call() -> None:
    x = torch.linspace(-3, 3, 1000, device="tpu")
    with torch.tpu.eager_mode("fused"):
        for _ in range(12):  # fused mode compiles a program for the same key
            x.exp().sum().item()
    torch.tpu.wait_for_compiles()
    first = x.exp()
    assert all(torch.equal(x.exp(), first) for _ in range(20))


def test_random_numbers_are_the_same_on_both_ways() -> None:
    def draw() -> list[torch.Tensor]:
        torch.tpu.manual_seed(3)
        x = torch.rand(5, 7, device="tpu") + 1
        y = F.dropout(x, 0.5)
        return [x.cpu(), y.cpu(), torch.randperm(9, device="tpu").cpu(), x.normal_().cpu()]

    mine, compiled = _both(draw)
    assert all(torch.equal(a, b) for a, b in zip(mine, compiled, strict=True))


@pytest.mark.parametrize("shape", [(), (0, 2), (3, 5)])
@pytest.mark.parametrize("dtype", _DTYPES)
def test_values_pass_between_programs_and_kernels(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    values = torch.arange(math.prod(shape)).reshape(shape).to(dtype)
    x = values.to("tpu")

    def copy(x: torch.Tensor) -> torch.Tensor:
        copied = x.clone()
        _C.value(copied)  # turns host memory into an array, as a program does that reads it
        return copied

    for _ in range(3):
        mine, compiled = _both(partial(copy, x))
        assert mine.cpu().equal(values)
        assert compiled.cpu().equal(values)
        x = copy(mine)


def test_writes_through_views_are_seen_by_all_views() -> None:
    def write() -> torch.Tensor:
        x = torch.zeros(4, 5, device="tpu")
        view = x[1:3, ::2]
        before = x.clone()
        view.add_(1)
        x.t()[0].mul_(3)
        view[0].copy_(torch.arange(3.0, device="tpu"))
        x[3] = x[1]
        assert not before.any()
        return x.cpu()

    mine, compiled = _both(write)
    assert torch.equal(mine, compiled)


def test_an_out_argument_is_resized_as_by_a_program() -> None:
    x = torch.arange(6.0, device="tpu").reshape(2, 3)
    for _ in range(2):
        empty = torch.empty(0, device="tpu")
        assert torch.add(x, x, out=empty) is empty
        assert empty.tolist() == [[0, 2, 4], [6, 8, 10]]
        y = torch.ones(3, device="tpu")
        with pytest.raises(RuntimeError, match="cannot be resized"):
            torch.add(y, x, out=y)
        assert y.tolist() == [1, 1, 1]


def test_overlapping_writes_give_the_compiled_values() -> None:
    def shift() -> torch.Tensor:
        x = torch.arange(6.0, device="tpu")
        x.add_(1)
        x[1:].add_(x[:-1].clone())
        x.mul_(x)
        return x.cpu()

    mine, compiled = _both(shift)
    assert torch.equal(mine, compiled)
    x = torch.arange(6.0, device="tpu")
    torch.tpu.set_cpu_kernels(True)
    on_cpu = _error(lambda: x[1:].add_(x[:-1]))
    torch.tpu.set_cpu_kernels(False)
    assert on_cpu == _error(lambda: x[1:].add_(x[:-1])) != None  # noqa: E711 - both, chained


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + torch.ones(7, device="tpu"),
        lambda x: x @ x,
        lambda x: x.int().add_(0.5),
        lambda x: torch.bitwise_and(x, 1),
        lambda x: x.expand(5, 3, 4).add_(1),
        lambda x: F.nll_loss(x, torch.zeros(2, dtype=torch.int64, device="tpu")),
        lambda x: x.fill_(torch.ones(2, device="tpu")),
        lambda x: x.to(torch.uint8).fill_(300),
        lambda x: torch.cat((x, x.t())),
        lambda x: x + torch.ones(3, 4),
        lambda x: x.sum(5),
    ],
)
def test_what_the_device_refuses_is_refused_in_the_first_call(call: Callable[..., Any]) -> None:
    x = torch.arange(12.0, device="tpu").reshape(3, 4)
    on_cpu = _error(lambda: call(x))
    again = _error(lambda: call(x))
    torch.tpu.set_cpu_kernels(False)
    assert on_cpu == again == _error(lambda: call(x))
    assert on_cpu is not None
    assert torch.equal(x.cpu(), torch.arange(12.0).reshape(3, 4))


def test_an_index_out_of_range_is_clamped_on_both_ways() -> None:
    x = torch.arange(4.0, device="tpu")
    good = torch.tensor([0, 3], device="tpu")
    bad = torch.tensor([0, 9], device="tpu")
    assert x.index_select(0, good).tolist() == [0, 3]
    mine = x.index_select(0, bad).tolist()
    torch.tpu.set_cpu_kernels(False)
    assert mine == x.index_select(0, bad).tolist()


_SPECIAL = [0.0, -0.0, 1.5, -2.5, float("nan"), float("inf"), -float("inf"), 1e30, -1e30]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32])
def test_special_values_agree(dtype: torch.dtype) -> None:
    if dtype == torch.int32:
        values = torch.tensor([0, 1, -1, 7, 2**31 - 1, -(2**31)], dtype=dtype)
    else:
        values = torch.tensor(_SPECIAL, dtype=torch.float64).to(dtype)

    def compute() -> list[torch.Tensor]:
        x = values.to("tpu")
        y = x.flip(0)
        results = [x + y, x - y, x * y, x.abs(), x.neg(), torch.maximum(x, y), torch.minimum(x, y)]
        results += [x.clamp(-1, 1), x.sign(), x > y, x == y, torch.where(x > 0, x, y), x.to(bool)]
        results += [x.amax(), x.amin(), x.argmax(), x.argmin(), x.relu(), x.cumsum(0)]
        if dtype.is_floating_point:
            results += [x / y, x.floor(), x.round(), x.trunc(), torch.fmod(x, 2.0), x.isnan()]
            results += [torch.remainder(x, 2.0), x.isfinite(), x.to(torch.int32), x.nan_to_num()]
            results += [x.sqrt(), torch.copysign(x, y), x.sgn(), torch.fmax(x, y)]
        return [result.cpu() for result in results]

    mine, compiled = _both(compute)
    for index, (a, b) in enumerate(zip(mine, compiled, strict=True)):
        torch.testing.assert_close(
            # Unlike CPU kernels, programs flush subnormal numbers to zero, and compute relu(-0.0)
            # as 0.0.
            a,
            b,
            rtol=1e-6,
            atol=1e-37,
            equal_nan=True,
            msg=lambda text, i=index: f"{i}: {text}",
        )


def test_layouts_agree() -> None:
    def layouts() -> list[Any]:
        x = torch.randn(2, 3, 4, 5, device="tpu").to(memory_format=torch.channels_last)
        results = [x + 1, x.sum(1), x.permute(3, 0, 1, 2) * 2, x[:, 1:] + x[:, :-1], x.clone()]
        results += [
            x.contiguous(),
            F.relu(x),
            x.softmax(1),
            torch.cat((x, x)),
            x.expand(2, 3, 4, 5),
        ]
        results += [torch.zeros(0, 3, device="tpu") + 1, x.mT @ x, x.new_zeros(3).add(1)]
        return [(r.dtype, tuple(r.shape), r.stride(), r.storage_offset()) for r in results]

    mine, compiled = _both(layouts)
    assert mine == compiled


def test_modes_and_settings_keep_their_rules() -> None:
    x = torch.ones(3, 5, device="tpu")
    with torch.tpu.eager_mode("debug"):
        calls = torch.tpu.metrics().cpu_kernels
        _ = x * 3
        assert torch.tpu.metrics().cpu_kernels == calls
        with pytest.raises(IndexError):
            x.index_select(0, torch.tensor([7], device="tpu"))
    with torch.tpu.cache_only():
        assert (x + 4).sum().item() == 75  # a CPU kernel runs, so nothing is compiled
        with pytest.raises(torch.tpu.CacheMissError):
            torch.rand(3, 77, device="tpu")
    with torch.tpu.precision("highest"):
        calls = torch.tpu.metrics().cpu_kernels
        _ = x @ x.t()
        assert torch.tpu.metrics().cpu_kernels == calls


def test_autograd_and_hooks_work() -> None:
    def grads() -> list[torch.Tensor]:
        x = torch.arange(1.0, 7.0, device="tpu").reshape(2, 3).requires_grad_()
        y = (x.exp().log() * x).sum(1).prod()
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        first.sum().backward()
        assert x.grad is not None
        return [first.detach().cpu(), x.grad.cpu()]

    mine, compiled = _both(grads)
    torch.testing.assert_close(mine, compiled)


def test_transforms_work() -> None:
    def curvature() -> torch.Tensor:
        x = torch.arange(1.0, 4.0, device="tpu")
        return torch.func.hessian(lambda t: (t.sin() * t).sum())(x).cpu()

    mine, compiled = _both(curvature)  # forward mode creates zero tensors, which own no memory
    torch.testing.assert_close(mine, compiled)


def test_a_version_counter_catches_writes_to_saved_tensors() -> None:
    x = torch.ones(3, device="tpu", requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_threads_do_not_lose_writes() -> None:
    x = torch.zeros(40_000, device="tpu")

    def work() -> None:
        for _ in range(20):
            x.add_(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.unique().tolist() == [60]


def test_values_pass_between_kernels_and_programs() -> None:
    x = torch.arange(6.0, device="tpu") * 2  # a CPU kernel computes this product
    with torch.tpu.eager_mode("fused"):
        y = torch.rand(6, device="tpu") * 0 + x
        x.add_(1)
        z = x + y
    compiled = torch.compile(lambda t: t * 2 + 1)
    assert compiled(z).tolist() == [1 + 2 * (4 * i + 1) for i in range(6)]
    assert (z.resize_(8)[:6] + 0).tolist() == [4 * i + 1 for i in range(6)]
    assert torch.tensor([True, False], device="tpu").logical_not().tolist() == [False, True]
    assert (x.view(torch.int32) + 0).view(torch.float32).tolist() == x.tolist()


def test_memory_is_limited_before_anything_is_stored() -> None:
    x = torch.ones(1000, device="tpu")
    x + 1
    limit = _C.memory_limit(0)
    try:
        _C.set_memory_limit(0, torch.tpu.memory_allocated() + 100)
        with pytest.raises(torch.OutOfMemoryError):
            x + 1
    finally:
        _C.set_memory_limit(0, limit)


def test_the_policy_names_operators_that_exist() -> None:
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    unused = [p for p in cpu_kernels._PREFIXES if not any(n.startswith(p) for n in names)]
    assert not unused, f"eager/cpu_kernels.py: no operator starts with {unused}. Remove them"


def test_the_setting_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_google.tpu.runtime import cpu_kernel_setting

    monkeypatch.setenv("TORCH_TPU_CPU_KERNELS", "yes")
    with pytest.raises(ValueError, match="use 1 for CPU kernels, or 0"):
        cpu_kernel_setting.choose()
    for text, chosen in (("1", True), ("0", False), ("", None)):
        monkeypatch.setenv("TORCH_TPU_CPU_KERNELS", text)
        cpu_kernel_setting.choose()
        assert torch.tpu.get_cpu_kernels() is chosen


def _quotients(dtype: torch.dtype) -> dict[str, Callable[[torch.Tensor, torch.Tensor], Any]]:
    smallest = torch.iinfo(dtype).min
    return {
        "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        "trunc, scalar": lambda x, _: torch.div(x, -1, rounding_mode="trunc"),
        "trunc, in place": lambda x, y: x.div_(y, rounding_mode="trunc"),
        "floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
        "//": lambda x, y: x // y,
        "//, scalar": lambda x, _: x // -1,
        "//=": lambda x, y: x.floor_divide_(y),
        "a scalar //": lambda x, y: torch.full_like(x, smallest) // y,
        "remainder": torch.remainder,
        "remainder, scalar": lambda x, _: x % -1,
        "remainder of a scalar": lambda _, y: smallest % y,
        "fmod": torch.fmod,
        "fmod, scalar": lambda x, _: torch.fmod(x, -1),
    }


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("name", _quotients(torch.int64))
def test_the_smallest_integer_divided_by_minus_one_wraps(name: str, dtype: torch.dtype) -> None:
    # torch's CPU kernels end the process for int32 and int64, unless they have vector code.
    divide = _quotients(dtype)[name]
    # First make calls with a safe divisor, for which a kernel is admitted.
    for size in (3, 4):
        ones = torch.ones(size, dtype=dtype, device="tpu")
        assert divide(ones * 7, ones).shape == (size,)
        assert (ones * 7 // 2).tolist() == [3] * size
    smallest = torch.full((5,), torch.iinfo(dtype).min, dtype=dtype, device="tpu")
    result = divide(smallest, torch.full_like(smallest, -1))
    is_rest = "remainder" in name or "fmod" in name
    assert result.tolist() == [0 if is_rest else torch.iinfo(dtype).min] * 5


@pytest.mark.parametrize(("dtype", "other"), [(torch.int64, 7), (torch.int32, 127)])
def test_the_least_common_multiple_of_the_smallest_integer(dtype: torch.dtype, other: int) -> None:
    x = torch.tensor([torch.iinfo(dtype).min, 12]).to(dtype)
    y = torch.tensor([other, 18]).to(dtype)
    # torch's CPU kernel ends the process.
    assert torch.lcm(x.to("tpu"), y.to("tpu")).tolist()[1] == 36


def test_an_integer_division_by_a_safe_number_uses_a_cpu_kernel() -> None:
    for size in range(3, 8):
        x = torch.full((size,), 7, device="tpu")
        assert [(x // 2).tolist(), (x % 4).tolist()] == [[3] * size, [3] * size]
        assert torch.div(x, -3, rounding_mode="trunc").tolist() == [-2] * size
    assert torch.tpu.metrics().compiles == 0
