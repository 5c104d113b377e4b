# SPDX-License-Identifier: Apache-2.0
"""Chains of views, with writes in between, give the same values as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from tools.par.testing.budget import examples
from torch_google.tpu.release import has_operator


@st.composite
def a_view(draw: st.DrawFn, tensor: torch.Tensor) -> tuple[str, tuple[Any, ...]]:
    """Draw a random view of a tensor, as a method name and its arguments."""
    views = ["unsqueeze"]
    if tensor.dim():
        views += ["transpose", "narrow", "select", "step", "expand", "unfold", "as_strided"]
    if tensor.dim() > 1:
        views += ["diagonal", "flip_dims"]
    if tensor.is_contiguous():
        views += ["flat", "bits"]
    kind = draw(st.sampled_from(views))
    dim = draw(st.integers(0, max(tensor.dim() - 1, 0)))
    size = tensor.shape[dim] if tensor.dim() else 1
    if kind == "unsqueeze":
        return "unsqueeze", (dim,)
    if kind == "transpose":
        return "transpose", (dim, draw(st.integers(0, tensor.dim() - 1)))
    if kind == "flip_dims":
        return "permute", (list(reversed(range(tensor.dim()))),)
    if kind == "narrow":
        start = draw(st.integers(0, size))
        return "narrow", (dim, start, draw(st.integers(0, size - start)))
    if kind == "select" and size:
        return "select", (dim, draw(st.integers(0, size - 1)))
    if kind == "step":
        index = [slice(None)] * dim + [slice(draw(st.integers(0, 2)), None, 2)]
        return "__getitem__", (tuple(index),)
    if kind == "expand":
        return "expand", ([2, *tensor.shape],)
    if kind == "unfold" and size:
        return "unfold", (dim, draw(st.integers(1, size)), draw(st.integers(1, 3)))
    if kind == "diagonal":
        return "diagonal", (draw(st.integers(-1, 1)),)
    if kind == "flat":
        return "view", (-1,)
    if kind == "bits" and tensor.dtype in (torch.float32, torch.int32):
        return "view", (torch.int32 if tensor.dtype == torch.float32 else torch.float32,)
    return "as_strided", (list(tensor.shape), list(tensor.stride()))


def overlaps(tensor: torch.Tensor) -> bool:
    places = torch.arange(tensor.untyped_storage().nbytes() // tensor.element_size())
    positions = places.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).flatten()
    return len(positions.unique()) != len(positions)


def same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.shape == expected.shape
    assert actual.stride() == expected.stride()
    assert actual.storage_offset() == expected.storage_offset()
    assert actual.dtype == expected.dtype
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-6, atol=0, equal_nan=True)


def write(kind: str, target: torch.Tensor, number: int) -> None:
    if target.dtype == torch.int32:
        # Other views read these integers as floats. Keep the floats in the normal range, because
        # XLA flushes denormals to zero.
        number += 0x3F800000
        kind = "fill" if kind in ("add", "square") else kind
    if kind == "fill":
        target.fill_(number)
    elif kind == "zero":
        target.zero_()
    elif kind == "add":
        target.add_(number)
    elif kind == "copy":
        values = torch.arange(target.numel(), dtype=target.dtype) + number
        target.copy_(values.reshape(target.shape).to(target.device))
    else:
        target.mul_(target)


@settings(
    max_examples=examples(60, part=10), deadline=None, suppress_health_check=list(HealthCheck)
)
@given(st.data())
def test_chains_of_views_and_writes(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from([(4, 6), (2, 3, 4), (12,), (5, 1, 3)]))
    cpu_base = torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)
    device_base = cpu_base.to("tpu")
    pairs = [(device_base, cpu_base)]
    for _ in range(data.draw(st.integers(1, 5))):
        mine, other = pairs[data.draw(st.integers(0, len(pairs) - 1))]
        method, args = data.draw(a_view(other))
        pairs.append((getattr(mine, method)(*args), getattr(other, method)(*args)))
        mine, other = pairs[data.draw(st.integers(0, len(pairs) - 1))]
        if not overlaps(other):
            kind = data.draw(st.sampled_from(["fill", "zero", "add", "copy", "square"]))
            number = data.draw(st.integers(0, 9))
            write(kind, other, number)
            write(kind, mine, number)
        for mine, other in pairs:
            same(mine, other)


def both(make: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return make("tpu"), make("cpu")


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.ones(1, device=d).expand(3).add_(1),
        lambda d: (lambda x: x[1:].add_(x[:-1]))(torch.ones(4, device=d)),
        lambda d: (lambda x: x[1:].copy_(x[:-1]))(torch.ones(4, device=d)),
        lambda d: torch.ones(3, device=d).add_(torch.ones(2, 3, device=d)),
        lambda d: torch.ones(3, dtype=torch.int32, device=d).add_(1.5),
        lambda d: torch.ones(3, device=d).view(2, 2),
    ],
)
def test_what_the_cpu_refuses(make: Any) -> None:
    with pytest.raises(RuntimeError) as expected:
        make("cpu")
    with pytest.raises(RuntimeError) as actual:
        make("tpu")
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


def test_fill_of_an_expanded_tensor() -> None:
    def make(device: str) -> torch.Tensor:
        base = torch.zeros(1, 3, device=device)
        base.expand(4, 3).fill_(2)
        return base

    same(*both(make))


def test_out_is_resized_and_written_through_its_strides() -> None:
    def make(device: str) -> torch.Tensor:
        x = torch.arange(6.0).reshape(2, 3).to(device)
        empty = torch.empty(0, device=device)
        assert torch.add(x, x, out=empty) is empty
        base = torch.zeros(3, 4).to(device)
        torch.add(x, empty, out=base[:, 1:3].t())
        return base

    same(*both(make))


def test_two_outs_in_one_storage() -> None:
    def make(device: str) -> torch.Tensor:
        base = torch.zeros(2, 3, device=device)
        indices = torch.zeros(3, dtype=torch.int64, device=device)
        x = torch.arange(6.0).reshape(2, 3).to(device)
        torch.max(x, 0, out=(base[1], indices))
        return base

    same(*both(make))


def test_results_lie_as_on_the_cpu() -> None:
    def make(device: str) -> torch.Tensor:
        x = torch.arange(24.0).reshape(1, 2, 3, 4).to(device)
        return x.to(memory_format=torch.channels_last) * 2

    same(*both(make))


def test_resize_keeps_the_beginning() -> None:
    def make(device: str) -> torch.Tensor:
        x = torch.arange(6.0).to(device).resize_(2, 4)
        x[1, 2:] = 0
        return x

    same(*both(make))


def test_a_storage_keeps_the_bytes_behind_its_last_whole_element() -> None:
    def cut(device: str) -> torch.Tensor:
        x = torch.tensor([0.1, 0.2, 0.3]).to(device)
        x.untyped_storage().resize_(10)
        assert (x[:2] * 1).tolist() == torch.tensor([0.1, 0.2]).tolist()
        x.untyped_storage().resize_(12)
        return x.view(torch.uint8)[:10]

    def odd(device: str, dtype: torch.dtype) -> torch.Tensor:
        storage = torch.UntypedStorage(10, device=device)
        numbers = torch.empty(0, device=device).set_(storage, 0, (2,))
        numbers * 1  # this reads the storage before anything is written to it
        storage_bytes = torch.empty(0, dtype=torch.uint8, device=device).set_(storage, 0, (10,))
        storage_bytes.fill_(7)
        return storage_bytes if dtype == storage_bytes.dtype else numbers * 1

    same(*both(cut))
    for dtype in (torch.uint8, torch.float32):
        same(*both(lambda device, dtype=dtype: odd(device, dtype)))


def test_set_shares_a_storage() -> None:
    def make(device: str) -> torch.Tensor:
        x = torch.zeros(4).to(device)
        y = torch.empty(0, device=device).set_(x)
        y.add_(1)
        torch.empty(0, device=device).set_(x.untyped_storage(), 2, (2,)).add_(5)
        return x

    same(*both(make))


def test_complex_parts_and_booleans() -> None:
    def make(device: str) -> torch.Tensor:
        z = torch.tensor([1 + 2j, 3 - 4j]).to(device)
        torch.view_as_real(z)[:, 1].add_(1)
        return z

    same(*both(make))
    bits = torch.tensor([True, False]).to("tpu")
    bits[1:] = True
    assert bits.cpu().tolist() == [True, True]


# Views of tensors whose size in bytes is not a multiple of the view's element size.
ODD: dict[str, Callable[[str], tuple[torch.Tensor, torch.Tensor]]] = {
    "bytes": lambda d: (x := torch.arange(9, dtype=torch.int8).to(d), x[:8].view(torch.int32)),
    "a part": lambda d: (x := torch.arange(15, dtype=torch.int8).to(d), x[4:12].view(torch.int16)),
    "floats": lambda d: (x := torch.arange(5.0).to(d), torch.view_as_complex(x[:4].view(2, 2))),
    "bytes for pairs": lambda d: (
        x := torch.zeros(13, dtype=torch.int8).to(d),
        x[:8].view(torch.complex64),
    ),
    "pairs": lambda d: (
        x := torch.full((3,), 1 + 1j, dtype=torch.complex64).to(d),
        x[:2].view(torch.complex128),
    ),
    "flags": lambda d: (x := torch.ones(5, dtype=torch.bool).to(d), x[:4].view(torch.int16)),
}


@pytest.mark.parametrize("name", ODD)
def test_bytes_that_are_no_whole_number_of_elements(name: str) -> None:
    def kept(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.cpu().clone()

    results = []
    for device in ("cpu", "tpu"):
        base, view = ODD[name](device)
        tensors = [kept(view), kept(view + 1)]
        if name != "flags":
            view.add_(1)
            tensors.append(kept(base))
            view[1:].fill_(2)
        else:
            view[1:].zero_()
        tensors += [kept(base), kept(view), kept(base.clone())]
        view.zero_()
        results.append([*tensors, kept(base)])
    for expected, actual in zip(*results, strict=True):
        same(actual, expected)


def test_nothing_at_all() -> None:
    x = torch.empty(0, 3, device="tpu")
    assert (x + x).shape == (0, 3)
    assert x.add_(1).cpu().numel() == 0
    assert torch.ones(3, device="tpu").expand(2, 3)[:, :0].add_(1).numel() == 0
    assert torch.ones(2, 0).to("tpu").sum().item() == 0


def test_what_changes_sizes_in_place() -> None:
    changes: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x.squeeze_(1),
        lambda x: x.unsqueeze_(0),
        lambda x: x.transpose_(0, 2),
        lambda x: x.squeeze_(1).t_(),
        lambda x: x.as_strided_([2, 2], [1, 4], 3),
        lambda x: x.swapaxes_(0, 2),
    ]
    for change in changes:
        cpu_x = torch.arange(12.0).reshape(3, 1, 4)
        device_x = cpu_x.to("tpu")
        storage = device_x.view(-1)
        same(change(device_x), change(cpu_x))
        storage.mul_(2)
        cpu_x.mul_(2)
        same(device_x, cpu_x)


def test_lazily_conjugated_and_negated() -> None:
    cpu_x = torch.randn(3, 4, dtype=torch.complex64)
    device_x = cpu_x.to("tpu")
    views: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x.conj(),
        lambda x: x.conj().imag,
        lambda x: x[1].conj().t(),
        torch._neg_view,
    ]
    for view in views:
        same(view(device_x), view(cpu_x))
        same(view(device_x).clone(), view(cpu_x).clone())
        same(view(device_x) + 1, view(cpu_x) + 1)
        view(device_x).mul_(3)
        view(cpu_x).mul_(3)
        same(device_x, cpu_x)
        view(device_x).copy_(torch.ones((), device="tpu"))
        view(cpu_x).copy_(torch.ones(()))
        same(device_x, cpu_x)
    same(device_x @ device_x.mH, cpu_x @ cpu_x.mH)
    assert device_x[0, 0].conj().item() == cpu_x[0, 0].conj().item()


def test_empty_outs_lie_as_new_results() -> None:
    x = torch.randn(4, 3)
    for op, count in ((torch.linalg.qr, 2), (torch.geqrf, 2), (torch.cummax, 2), (torch.kron, 1)):
        dtypes = [torch.float32, torch.int64 if op is torch.cummax else torch.float32][:count]
        results = []
        for device in ("cpu", "tpu"):
            outs = [torch.empty(0, dtype=dtype, device=device) for dtype in dtypes]
            more = {torch.cummax: (0,), torch.kron: (x.to(device),)}.get(op, ())
            op(x.to(device), *more, out=outs if count > 1 else outs[0])
            results.append(outs)
        for expected, actual in zip(*results, strict=True):
            same_but_for_rounding(actual, expected)


def test_numbers_for_tensors_where_something_is_written() -> None:
    x = torch.tensor([[1.0, -2.0], [0.0, 3.0]])
    out = torch.empty(0)
    for value in (-1.5, 2, True):
        device_x = x.to("tpu")
        assert torch.equal(device_x.copysign_(value).cpu(), x.clone().copysign_(value))
        spread = torch.zeros(2, 4, device="tpu")[:, ::2]
        torch.copysign(x.to("tpu"), value, out=spread)
        assert torch.equal(spread.cpu(), torch.copysign(x, value, out=out))


def test_empty_outs_of_kernels_that_copy_are_contiguous() -> None:
    if has_operator("aten::cholesky"):
        matrix = torch.tensor([[4.0, 1.0], [1.0, 3.0]])
        factor = torch.empty(0, device="tpu")
        torch.cholesky(matrix.to("tpu"), out=factor)
        assert factor.stride() == torch.cholesky(matrix, out=torch.empty(0)).stride() == (2, 1)
    x = torch.randn(10, 7, 6, dtype=torch.complex64)
    actual, expected = torch.empty(0, device="tpu"), torch.empty(0)
    torch.fft.hfft(x.to("tpu"), n=10, dim=0, out=actual)
    torch.fft.hfft(x, n=10, dim=0, out=expected)
    same_but_for_rounding(actual, expected)


def same_but_for_rounding(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert (actual.shape, actual.stride()) == (expected.shape, expected.stride())
    torch.testing.assert_close(actual.cpu(), expected)


def test_a_lazy_clone_has_memory_of_its_own() -> None:
    tensor = torch.ones(2, device="tpu")
    copy = torch._lazy_clone(tensor)
    tensor.add_(1)
    assert copy.tolist() == [1, 1]
    assert not copy.is_set_to(tensor)


def test_is_set_to() -> None:
    for device in ("cpu", "tpu"):
        tensor = torch.ones(3, 2, device=device)
        assert tensor.is_set_to(tensor.view(3, 2))
        assert not tensor.is_set_to(tensor[1:])
        assert not tensor.is_set_to(tensor.t())
        assert not tensor.is_set_to(tensor.clone())


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_numbers_leave_strides_as_on_the_cpu(dtype: torch.dtype) -> None:
    strides = []
    for device in ("cpu", "tpu"):
        x = torch.empty_strided((4, 1), (1, 4), dtype=dtype, device=device).fill_(2)
        results = (
            *(x + 1, 1 - x, x * 2, x / 2, 2 / x, x % 3, x.fmod(3), x // 2, x**2, 2**x),
            *(x > 1, x == 1, x.long() & 1, x.long() << 1, torch.where(x > 0, 1, 2)),
            *(x.clamp(0, 2), x.clamp(min=1), x.clamp(max=1), x.relu(), -x, x.clone()),
            *(torch.threshold(x, 0, 1), x + torch.ones((), dtype=dtype, device=device)),
        )
        strides.append([result.stride() for result in results])
    assert strides[0] == strides[1]


def test_results_follow_the_strides_of_dimensions_of_one_element() -> None:
    for order in (torch.channels_last, torch.contiguous_format):
        strides = []
        for device in ("cpu", "tpu"):
            one = torch.ones(10, 3, 1, 1, device=device).to(memory_format=order)
            other = torch.ones(3, 1, 1, device=device)
            results = (one + other, other + one, one * 5, one.clone())
            strides.append([one.stride(), *(result.stride() for result in results)])
        assert strides[0] == strides[1]
