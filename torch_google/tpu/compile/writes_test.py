# SPDX-License-Identifier: Apache-2.0
"""Results of compiled functions that mutate arguments or return aliases match the CPU results."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from torch_google.tpu import _C


def check(function: Callable[..., Any], *args: torch.Tensor, calls: int = 2) -> None:
    """Compare the results and arguments of `function` on the CPU and, compiled, on the device."""
    device_args = [arg.to("tpu") for arg in args]
    compiled = torch.compile(function, fullgraph=True)
    for _ in range(calls):
        expected, actual = function(*args), compiled(*device_args)
        alike(actual, expected)
        alike(device_args, args)


def alike(actual: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        assert actual.stride() == expected.stride()
        torch.testing.assert_close(actual.cpu(), expected)
    else:
        for mine, its in zip(actual, expected, strict=True):
            alike(mine, its)


def test_arguments_are_written_in_place_and_no_copies_are_made() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        y[1:].add_(1)
        return x + y

    check(function, torch.ones(3), torch.ones(3), calls=3)
    assert "copy" not in torch.tpu.metrics().graphs


def test_what_is_donated_is_gone_and_what_the_user_holds_is_not() -> None:
    function = torch.compile(lambda x: x.add_(1))
    x = torch.zeros(4, device="tpu")
    function(x)
    held = _C.value(x)
    function(x)
    assert torch.tpu.metrics().graphs["copy"] == 1
    assert held.tolist() == [1.0] * 4
    donated = _C.value(x)
    address = donated.unsafe_buffer_pointer()
    del donated
    function(x)
    assert _C.value(x).unsafe_buffer_pointer() == address
    assert x.tolist() == [3.0] * 4


def test_nothing_is_donated_without_the_option() -> None:
    function = torch.compile(lambda x: x.add_(1), backend="tpu", options={"donate": False})
    x = torch.zeros(4, device="tpu")
    function(x)
    address = _C.value(x).unsafe_buffer_pointer()
    function(x)
    assert _C.value(x).unsafe_buffer_pointer() != address
    assert x.tolist() == [2.0] * 4


def test_views_are_written_where_they_lie() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    base = torch.zeros(4, 4)
    device_base = base.to("tpu")
    compiled = torch.compile(function, fullgraph=True)
    alike(compiled(device_base[1:3, ::2]), function(base[1:3, ::2]))
    alike(compiled(device_base.t()[1:]), function(base.t()[1:]))
    alike(device_base, base)


def test_arguments_that_overlap() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x + y

    base = torch.arange(6.0)
    device_base = base.to("tpu")
    compiled = torch.compile(function, fullgraph=True)
    alike(compiled(device_base[:4], device_base[2:]), function(base[:4], base[2:]))
    alike(compiled(device_base, device_base), function(base, base))
    alike(device_base, base)


def test_a_result_may_be_the_argument() -> None:
    x = torch.ones(3, device="tpu")
    result = torch.compile(lambda x: x.mul_(2))(x)
    result.add_(1)
    assert x.tolist() == [3.0] * 3
    torch.compile(lambda x: x.mul_(2)[1:])(x).add_(1)
    assert x.tolist() == [6.0, 7.0, 7.0]


def test_results_share_storage_as_they_do_without_a_compiler() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return y.t(), y[0], x.view(-1), y.expand(2, *y.shape), x[1]

    x = torch.rand(3, 4)
    device_x = x.to("tpu")
    expected, actual = function(x), torch.compile(function, fullgraph=True)(device_x)
    for results in (expected, actual):
        results[2].add_(1)
        results[0].mul_(3)
    alike(actual, expected)
    alike(device_x, x)


@pytest.mark.parametrize("sizes", [(0, 3), (2, 0), ()], ids=str)
def test_tensors_without_elements_or_dimensions(sizes: tuple[int, ...]) -> None:
    check(lambda x: (x + 1, x.sum()), torch.ones(sizes))


def test_numbers_on_the_cpu_beside_tensors_of_the_device() -> None:
    def function(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        scale.add_(1)
        return x * scale

    x, scale = torch.rand(3), torch.tensor(1.0)
    device_x, its = x.to("tpu"), scale.clone()
    compiled = torch.compile(function)
    for _ in range(3):
        alike(compiled(device_x, its), function(x, scale))
        alike(its, scale)


def test_functions_that_only_make_tensors() -> None:
    def function() -> torch.Tensor:
        return torch.arange(4, device="tpu") * 2 + torch.ones(4, device="tpu")

    assert torch.compile(function, fullgraph=True)().tolist() == [1.0, 3.0, 5.0, 7.0]


def test_pending_operators_of_the_fused_mode_run_first() -> None:
    function = torch.compile(lambda x: x.mul_(2) + 1)
    with torch.tpu.eager_mode("fused"):
        x = torch.ones(4, device="tpu") + 1
        for power in (2, 3):
            x.mul_(1.0)
            assert function(x).tolist() == [2.0**power + 1] * 4
    assert x.tolist() == [8.0] * 4


def test_strides_that_overlap_or_leave_gaps() -> None:
    check(lambda x: torch.as_strided(x + 1, (2, 2), (1, 2)), torch.arange(6.0))
    check(lambda x: torch.as_strided(x + 1, (2, 2), (1, 1)), torch.arange(6.0))


def test_complex_numbers_that_are_conjugated_lazily() -> None:
    x = torch.tensor([1 + 2j, 3 - 1j])
    function = torch.compile(lambda x: x * 2, fullgraph=True)
    torch.testing.assert_close(function(x.to("tpu").conj()).cpu(), x.conj() * 2)


def test_a_gradient_that_is_conjugated_lazily() -> None:
    values, grad = torch.tensor([1 + 2j, 3 - 1j]), torch.tensor([1j, 2 + 1j])
    function = torch.compile(lambda z: z * z)
    device_values, cpu_values = values.to("tpu").requires_grad_(), values.clone().requires_grad_()
    for lazily in (False, True):
        device_grad = grad.to("tpu").conj() if lazily else grad.to("tpu")
        (actual,) = torch.autograd.grad(function(device_values), device_values, device_grad)
        (expected,) = torch.autograd.grad(
            cpu_values * cpu_values, cpu_values, grad.conj() if lazily else grad
        )
        torch.testing.assert_close(actual.cpu(), expected)


def _as_numbers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    z = torch.complex(x, x + 1)
    return z, torch.view_as_real(z), z.conj(), z.imag, z.conj().imag, z.real


def _without_the_whole(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    z = torch.complex(x, x + 1)
    return torch.view_as_real(z)[1:], z.conj()


def _as_bits(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x + 1
    return y.view(torch.int16)[2:], y, y[1:], y.view(torch.int32), y[:2].view(torch.float64)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [_as_numbers, _without_the_whole, _as_bits])
def test_results_of_several_dtypes_share_storage(
    function: Callable[..., tuple[torch.Tensor, ...]], dynamic: bool
) -> None:
    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic)
    for size in (3, 4) if dynamic else (3,):
        for index in range(len(function(torch.ones(size)))):
            x = torch.rand(size)
            expected, actual = function(x), compiled(x.to("tpu"))
            alike(actual, expected)
            for results in (expected, actual):
                results[index].zero_()
            alike(actual, expected)
            for own, cpu_result in zip(actual, expected, strict=True):
                assert own.is_conj() == cpu_result.is_conj()
                assert own.is_neg() == cpu_result.is_neg()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kernels", [False, True])
def test_two_views_of_a_storage_are_written(dynamic: bool, kernels: bool) -> None:
    @torch.compile(dynamic=dynamic)
    def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        y.mul_(2)
        return x + y

    torch.tpu.set_cpu_kernels(kernels)
    try:
        for length in (3, 4, 5, 6):
            base = torch.ones(2 * length, device="tpu")
            result = both(base[:length], base[length:])
            assert base.tolist() == [2.0] * (2 * length)
            assert result.tolist() == [4.0] * length
    finally:
        torch.tpu.set_cpu_kernels(False)
