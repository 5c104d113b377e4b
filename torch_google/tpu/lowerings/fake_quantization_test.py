# SPDX-License-Identifier: Apache-2.0
"""Fake quantization and observers give the same values and gradients as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.ao import quantization

from torch_google.tpu.release import V2_6

_X = torch.linspace(-3.3, 3.3, 48).reshape(4, 3, 4)


def _per_tensor(x: Tensor) -> Tensor:
    return torch.fake_quantize_per_tensor_affine(x, 0.013, 7, 0, 255)


def _per_tensor_of_tensors(x: Tensor) -> Tensor:
    scale, zero = torch.tensor([0.05]).to(x), torch.tensor([3], dtype=torch.int32).to(x.device)
    return torch.fake_quantize_per_tensor_affine(x, scale, zero, -20, 20)


def _per_channel(x: Tensor) -> Tensor:
    scale = torch.tensor([0.1, 0.02, 0.3]).to(x.device)
    zero = torch.tensor([0, 100, 255], dtype=torch.int32).to(x.device)
    return torch.fake_quantize_per_channel_affine(x, scale, zero, 1, 0, 255)


def _per_channel_of_floats(x: Tensor) -> Tensor:
    scale, zero = torch.tensor([0.1, 0.02, 0.3]), torch.tensor([0.3, 100.5, 9.0])
    return torch.fake_quantize_per_channel_affine(
        x, scale.to(x.device), zero.to(x.device), 1, 0, 255
    )


FORMS = [_per_tensor, _per_tensor_of_tensors, _per_channel, _per_channel_of_floats]


def _both(work: Callable[[Tensor], Tensor], x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    results = []
    for device in ("cpu", "tpu"):
        leaf = x.to(device).detach().requires_grad_()
        y = work(leaf)
        y.backward(torch.linspace(-1, 1, y.numel()).reshape(y.shape).to(y))
        results.append([y.detach().cpu(), leaf.grad.cpu()])
    return results[0], results[1]


@pytest.mark.parametrize("mode", ["strict", "fused", "debug", "compile"])
@pytest.mark.parametrize("form", FORMS)
def test_values_and_gradients(form: Callable[[Tensor], Tensor], mode: str) -> None:
    work = torch.compile(form) if mode == "compile" else form
    with torch.tpu.eager_mode("strict" if mode == "compile" else mode):
        expected, actual = _both(
            lambda x: work(x) if x.device.type == "tpu" else form(x), _X.requires_grad_()
        )
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dtypes(dtype: torch.dtype) -> None:
    expected, actual = _both(_per_tensor, _X.detach().to(dtype))
    torch.testing.assert_close(actual, expected)


@pytest.mark.skipif(V2_6, reason="v2.6 quantizes an infinity to the lowest level")
def test_what_is_not_finite() -> None:
    x = torch.tensor([torch.nan, torch.inf, -torch.inf, 1e30, -1e30])
    expected, actual = _both(_per_tensor, x)
    torch.testing.assert_close(actual, expected, equal_nan=True)


def _learnable(x: Tensor, scale: Tensor, zero: Tensor, axis: int | None, factor: float) -> Tensor:
    if axis is None:
        return torch._fake_quantize_learnable_per_tensor_affine(x, scale, zero, 0, 15, factor)
    return torch._fake_quantize_learnable_per_channel_affine(x, scale, zero, axis, 0, 15, factor)


@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("factor", [1.0, 0.25])
def test_what_is_learned_has_gradients(axis: int | None, factor: float) -> None:
    results: list[list[Tensor]] = []
    for device in ("cpu", "tpu"):
        number = 1 if axis is None else 3
        scale = torch.tensor([0.11, 0.2, 0.3][:number]).to(device).requires_grad_()
        zero = torch.tensor([3.4, 5.6, 20.0][:number]).to(device).requires_grad_()
        x = _X.detach().to(device).requires_grad_()
        y = _learnable(x, scale, zero, axis, factor)
        (y * torch.linspace(-1, 1, 48).reshape(4, 3, 4).to(device)).sum().backward()
        results.append([t.detach().cpu() for t in (y, x.grad, scale.grad, zero.grad)])
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-4)


_FAKES: dict[str, Callable[[], Any]] = {
    "activations": lambda: quantization.default_fused_act_fake_quant(),
    "weights": lambda: quantization.default_fused_wt_fake_quant(),
    "channels": lambda: quantization.default_fused_per_channel_wt_fake_quant(),
    "not fused": lambda: quantization.default_fake_quant(),
    "channels, not fused": lambda: quantization.default_per_channel_weight_fake_quant(),
    "minimum and maximum": lambda: quantization.MinMaxObserver(),
    "histogram": lambda: quantization.HistogramObserver(),
}


@pytest.mark.parametrize("name", _FAKES)
def test_observers_see_the_same(name: str) -> None:
    results = []
    for device in ("cpu", "tpu"):
        fake = _FAKES[name]().to(device)
        for step in range(3):
            y = fake((_X.detach().reshape(4, 12) * (1 + step)).to(device))
        parameters = fake.calculate_qparams()
        state = [v for v in fake.state_dict().values() if isinstance(v, Tensor)]
        results.append([t.cpu() for t in (y, *parameters, *state)])
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("least", [-1e-6, 0.0, -5.0, -1.0])
@pytest.mark.parametrize("most", [1e-6, 0.0, 3.0])
@pytest.mark.parametrize("symmetric", [False, True])
def test_the_range_that_is_chosen(least: float, most: float, symmetric: bool) -> None:
    results = []
    for device in ("cpu", "tpu"):
        on = torch.ones(1, dtype=torch.int64, device=device)
        state = [torch.tensor([v], device=device) for v in (torch.inf, -torch.inf, 1.0)]
        zero = torch.zeros(1, dtype=torch.int32, device=device)
        x = torch.tensor([least, most], device=device)
        y = torch.fused_moving_avg_obs_fake_quant(
            x, on, on, *state, zero, 0.01, -128, 127, 0, False, symmetric
        )
        results.append([t.cpu() for t in (y, *state, zero)])
    torch.testing.assert_close(results[1], results[0], rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.bfloat16])
def test_observers_refuse_what_the_cpu_refuses(dtype: torch.dtype) -> None:
    for device in ("cpu", "tpu"):
        on = torch.ones(1, dtype=torch.int64, device=device)
        state = [torch.ones(1, device=device) for _ in range(3)]
        zero = torch.zeros(1, dtype=torch.int32, device=device)
        x = torch.ones(3, dtype=dtype, device=device)
        observe = torch.fused_moving_avg_obs_fake_quant
        for work in (observe, torch.compile(observe, backend="tpu")):
            with pytest.raises(RuntimeError, match="expected scalar type Float but found"):
                work(x, on, on, *state, zero, 0.01, -128, 127, 0)


@pytest.mark.full
def test_a_model_prepared_for_quantization_trains_as_on_the_cpu() -> None:
    losses: dict[str, list[float]] = {}
    for device in ("cpu", "tpu"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        model.qconfig = quantization.get_default_qat_qconfig("x86")
        model = quantization.prepare_qat(model.train()).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        x, y = torch.linspace(-1, 1, 60).reshape(10, 6).to(device), torch.ones(10, 1, device=device)
        losses[device] = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())
    assert losses["tpu"] == pytest.approx(losses["cpu"], rel=1e-3)


def test_a_zero_point_outside_of_the_range_is_refused() -> None:
    for device in ("cpu", "tpu"):
        x = torch.ones(2, 2, device=device)
        with pytest.raises(RuntimeError, match="`zero_point` must be between `quant_min` and"):
            torch.fake_quantize_per_tensor_affine(x, 1.0, 999, 0, 255)
        scale, zero = x[0], torch.tensor([0, 999], dtype=torch.int32, device=device)
        with (
            torch.tpu.eager_mode("debug"),
            pytest.raises(RuntimeError, match="`zero_point` must be between `quant_min` and"),
        ):
            torch.fake_quantize_per_channel_affine(x, scale, zero, 0, 0, 255)


@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize(
    ("sizes", "axis", "message"),
    [
        ((2, 2), 1, "dimensions of scale and zero-point are not consistent with input tensor"),
        ((3, 2), 1, "scale and zero-point need to have the same dimensions"),
        ((3, 3), 5, "Dimension out of range"),
    ],
)
def test_channels_that_do_not_fit(
    sizes: tuple[int, int], axis: int, message: str, device: str
) -> None:
    scale, zero = torch.ones(sizes[0]), torch.zeros(sizes[1], dtype=torch.int32)
    arguments = [t.to(device) for t in (_X.detach(), scale, zero)]
    works: list[Callable[..., Tensor]] = [_affine, torch.compile(_affine, backend="tpu")]
    for work in works:
        with pytest.raises((RuntimeError, IndexError), match=message):
            work(*arguments, axis)


def _affine(x: Tensor, scale: Tensor, zero: Tensor, axis: int) -> Tensor:
    return torch.fake_quantize_per_channel_affine(x, scale, zero, axis, 0, 255)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
@pytest.mark.parametrize("axis", [None, 1])
def test_learned_gradients_are_refused_as_on_the_cpu(dtype: torch.dtype, axis: int | None) -> None:
    for device, compiled in (("cpu", False), ("tpu", False), ("tpu", True)):
        number = 1 if axis is None else 3
        scale = torch.ones(number, device=device, requires_grad=True)
        zero = torch.zeros(number, device=device, requires_grad=True)
        x = _X.detach().to(device, dtype).requires_grad_()
        work = torch.compile(_learnable, backend="tpu") if compiled else _learnable
        with pytest.raises(
            RuntimeError, match=r"Expected dY_?.scalar_type\(\) == ScalarType::Float"
        ):
            work(x, scale, zero, axis, 1.0).sum().backward()


@pytest.mark.skipif(V2_6, reason="v2.6 from source has no fbgemm, whose rounding differs")
@pytest.mark.parametrize("seed", range(8))
def test_the_zero_point_of_a_symmetric_range(seed: int) -> None:
    # In exact arithmetic, the zero point of [-a, a] is n + 1/2 for an integer n. So the last bit of
    # the scale decides whether the zero point is rounded up or down.
    torch.manual_seed(seed)
    most = torch.rand(()).item() * 5 + 0.1
    results = []
    for device in ("cpu", "tpu"):
        on = torch.ones(1, dtype=torch.int64, device=device)
        state = [torch.tensor([v], device=device) for v in (torch.inf, -torch.inf, 1.0)]
        zero = torch.zeros(1, dtype=torch.int32, device=device)
        x = torch.tensor([-most, most], device=device)
        y = torch.fused_moving_avg_obs_fake_quant(x, on, on, *state, zero, 0.01, -128, 127, 0)
        results.append([t.cpu() for t in (y, *state, zero)])
    torch.testing.assert_close(results[1], results[0], rtol=1e-6, atol=0)


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_a_compiled_observer_needs_its_state(device: str) -> None:
    def observe(x: Tensor, on: Tensor, *state: Tensor) -> Tensor:
        rest = (0.01, -128, 127, 0, True)
        return torch.fused_moving_avg_obs_fake_quant(x, on, on, *state, *rest)

    torch._dynamo.reset()
    compiled = torch.compile(observe, backend="tpu")
    x = _X.detach().reshape(4, 12)
    results: list[list[Tensor]] = []
    for where in ("cpu", device):
        on = torch.ones(1, dtype=torch.int64, device=where)
        state = [torch.empty(0, device=where) for _ in range(3)]
        state.append(torch.empty(0, dtype=torch.int32, device=where))
        if not results:
            results.append([observe(x, on, *state), observe(2 * x, on, *state), *state])
            continue
        with pytest.raises(RuntimeError, match=r"Call the function or module once before torch\."):
            compiled(x.to(where), on, *[tensor.clone() for tensor in state])
        first = observe(x.to(where), on, *state)
        second = compiled(2 * x.to(where), on, *state)
        results.append([tensor.cpu() for tensor in (first, second, *state)])
    torch.testing.assert_close(results[1], results[0], rtol=1e-6, atol=1e-6)
