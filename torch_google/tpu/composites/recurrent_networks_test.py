# SPDX-License-Identifier: Apache-2.0
"""Values and gradients of recurrent networks match those on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

T, B, F, H = 4, 3, 5, 6


def pair(network: torch.nn.Module) -> tuple[torch.nn.Module, torch.nn.Module]:
    """Return a network on the CPU, and a copy of it on the device."""
    device_network = type(network)(**network.made_with).to("tpu")
    device_network.load_state_dict(network.state_dict())
    return network, device_network


def network(kind: str, **options: Any) -> torch.nn.Module:
    torch.manual_seed(0)
    made_with = {"input_size": F, "hidden_size": H, **options}
    module: torch.nn.Module = getattr(torch.nn, kind)(**made_with)
    module.made_with = made_with
    return module


def gradients(module: torch.nn.Module, x: torch.Tensor, outs: Any) -> list[torch.Tensor]:
    leaves = [t for t in torch.utils._pytree.tree_leaves(outs) if isinstance(t, torch.Tensor)]
    total = sum((t * t).sum() for t in leaves if t.requires_grad)
    return [*leaves, *torch.autograd.grad(total, [x, *module.parameters()])]


def same(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-5)
        assert one.stride() == other.stride()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("LSTM", {"num_layers": 2, "bidirectional": True}),
        ("LSTM", {"proj_size": 4, "batch_first": True, "bias": False}),
        ("GRU", {"num_layers": 2, "bidirectional": True, "batch_first": True}),
        ("GRU", {"bias": False}),
        ("RNN", {"bidirectional": True}),
        ("RNN", {"nonlinearity": "relu", "num_layers": 2}),
    ],
    ids=str,
)
def test_sequences(kind: str, options: dict[str, Any]) -> None:
    cpu_network, device_network = pair(network(kind, **options))
    x = torch.randn(T, B, F, requires_grad=True)
    y = x.detach().to("tpu").requires_grad_()
    same(gradients(device_network, y, device_network(y)), gradients(cpu_network, x, cpu_network(x)))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_packed_sequences_from_a_given_state(kind: str) -> None:
    cpu_network, device_network = pair(network(kind, bidirectional=True))
    lengths = torch.tensor([2, 4, 3])

    def run(module: torch.nn.Module, x: torch.Tensor, state: torch.Tensor) -> list[torch.Tensor]:
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        out, last = module(packed, (state, state) if kind == "LSTM" else state)
        out, sizes = torch.nn.utils.rnn.pad_packed_sequence(out)
        assert sizes.tolist() == lengths.tolist()
        return gradients(module, x, (out, last))

    x, state = torch.randn(T, B, F, requires_grad=True), torch.randn(2, B, H)
    y = x.detach().to("tpu").requires_grad_()
    same(run(device_network, y, state.to("tpu")), run(cpu_network, x, state))


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells(kind: str) -> None:
    cpu_network, device_network = pair(network(kind))
    x = torch.randn(B, F, requires_grad=True)
    y = x.detach().to("tpu").requires_grad_()
    same(gradients(device_network, y, device_network(y)), gradients(cpu_network, x, cpu_network(x)))


@pytest.mark.full
def test_second_gradients() -> None:
    cpu_network, device_network = pair(network("LSTM", proj_size=2))

    def run(module: torch.nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
        (first,) = torch.autograd.grad(module(x)[0].pow(2).sum(), x, create_graph=True)
        return [first, *torch.autograd.grad(first.pow(2).sum(), [x, *module.parameters()])]

    x = torch.randn(2, B, F, requires_grad=True)
    y = x.detach().to("tpu").requires_grad_()
    for one, other in zip(run(device_network, y), run(cpu_network, x), strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_gradients_with_a_graph_of_inputs_made_from_each_other(kind: str) -> None:
    cpu_network, device_network = pair(network(kind, input_size=H, num_layers=2))
    for module in (cpu_network, device_network):
        module.weight_hh_l0 = module.weight_hh_l1 = module.weight_ih_l0

    def run(module: torch.nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
        state = x.mean(0).expand(2, B, H)
        out, last = module(x, (state, state.cos()) if kind == "LSTM" else state)
        total = torch.cat([t.pow(2).flatten() for t in (out, *last)]).sum()
        inputs = [x, *module.parameters()]
        first = torch.autograd.grad(total, inputs, create_graph=True)
        return [*first, *torch.autograd.grad(first[0].pow(2).sum(), inputs)]

    x = torch.randn(2, B, H, requires_grad=True)
    y = x.detach().to("tpu").requires_grad_()
    for one, other in zip(run(device_network, y), run(cpu_network, x), strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-5)


def test_dropout_lies_between_layers() -> None:
    device_network = network("GRU", num_layers=2, dropout=0.5).to("tpu")
    x = torch.randn(T, B, F, device="tpu")
    assert not torch.equal(device_network(x)[0], device_network(x)[0])
    # The input of the first layer has no dropout, so the layer's last state is the same in every
    # run.
    torch.testing.assert_close(device_network(x)[1][0], device_network(x)[1][0])
    device_network.eval()
    torch.testing.assert_close(device_network(x)[0], device_network(x)[0])


def test_a_layer_is_one_program_forward_and_one_backward() -> None:
    device_network = network("LSTM").to("tpu")
    x = torch.randn(20, B, F, device="tpu", requires_grad=True)
    before = torch.tpu.metrics().operators
    device_network(x)[0].sum().backward()
    # Without the layer operators, each of the 20 steps would run a dozen operators.
    assert torch.tpu.metrics().operators - before < 40


def test_autocast_and_inference() -> None:
    cpu_network, device_network = pair(network("LSTM"))
    x = torch.randn(T, B, F)
    with torch.autocast("tpu"):
        out, _ = device_network(x.to("tpu"))
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.cpu().float(), cpu_network(x)[0], rtol=5e-2, atol=5e-2)
    with torch.inference_mode():
        torch.testing.assert_close(
            device_network(x.to("tpu"))[0].cpu(), cpu_network(x)[0], rtol=1e-4, atol=1e-5
        )


def test_dtypes_that_differ_are_refused() -> None:
    device_network = network("GRU").to("tpu")
    with pytest.raises((RuntimeError, ValueError), match="dtype|same type|the type"):
        device_network(torch.randn(T, B, F, device="tpu", dtype=torch.float64))


def test_under_torch_func() -> None:
    cpu_network, device_network = pair(network("GRU"))
    x = torch.randn(2, B, F)
    actual = torch.func.grad(lambda one: device_network(one)[0].pow(2).sum())(x.to("tpu"))
    expected = torch.func.grad(lambda one: cpu_network(one)[0].pow(2).sum())(x)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5)


def _run(kind: str, device: str, case: dict[str, Any]) -> None:
    """Call torch's operator on tensors of ones. `case` replaces the default dtype or shapes."""
    rows = {"lstm": 4 * H, "gru": 3 * H}.get(kind, H)
    shapes = {"x": (T, B, F), "hx": (1, B, H), "w_ih": (rows, F), "w_hh": (rows, H), **case}
    dtype = shapes.pop("dtype", torch.float32)
    x, hx, *weights = (torch.ones(shape).to(dtype).to(device) for shape in shapes.values())
    state: Any = [hx, hx] if kind == "lstm" else hx
    op = getattr(torch.ops.aten, kind).input
    op(x, state, weights, False, 1, 0.0, False, False, False)


@pytest.mark.parametrize(
    "case",
    [
        {"dtype": torch.bool},
        {"x": (0, B, F)},
        {"x": (T, B, F + 1)},
        {"hx": (1, B + 1, H)},
        {"hx": (2, B, H)},
        {"hx": (1, B, H + 1)},
        {"w_ih": (H + 1, F)},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_arguments_that_do_not_fit(kind: str, case: dict[str, Any]) -> None:
    if kind != "lstm":  # the CPU's LSTM does not check shapes
        with pytest.raises(RuntimeError):
            _run(kind, "cpu", case)
    with pytest.raises(RuntimeError):
        _run(kind, "tpu", case)


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh"])
def test_integers_are_refused(kind: str) -> None:
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError):
            _run(kind, device, {"dtype": torch.int64})
