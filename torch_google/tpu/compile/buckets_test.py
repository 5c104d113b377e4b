# SPDX-License-Identifier: Apache-2.0
"""Results and gradients match the CPU results when sizes change, with one program per bucket."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (torch's own name for it)
from torch import nn

from tools.par.testing.budget import only_full
from torch_google.tpu.compile import compile_step
from torch_google.tpu.release import V2_6


class Block(nn.Module):
    """A transformer block that uses torch's fused attention or a math (unfused) implementation."""

    def __init__(self, *, formula: bool) -> None:
        super().__init__()
        self.formula = formula
        self.first, self.second = nn.LayerNorm(8), nn.LayerNorm(8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.layer = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        qkv = self.qkv(self.first(x)).view(rows, length, 3, 2, width // 2)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if self.formula:
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
            scores = (q @ k.transpose(-1, -2) / (width // 2) ** 0.5).masked_fill(~mask, -1e9)
            mixed = scores.softmax(-1) @ v
        else:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.layer(self.second(x))


class Language(nn.Module):
    def __init__(self, *, formula: bool = False) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(11, 8), nn.Embedding(40, 8)
        self.block = Block(formula=formula)
        self.head = nn.Linear(8, 11)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.head(self.block(self.words(tokens) + self.places(places)))
        return F.cross_entropy(x.view(-1, x.shape[-1]), targets.view(-1), ignore_index=3)


class Pictures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.head = nn.Linear(4 * 3 * 3, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.max_pool2d(F.relu(self.norm(self.conv(x))), 2).flatten(1))


class Graded(nn.Module):
    """A model combined with its loss, so that nothing runs outside the graph."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        result = self.model(*args)
        return result.detach(), result.square().mean()


def _layers() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.LayerNorm(7), nn.Linear(7, 3))


def _train(
    model: nn.Module,
    make: Callable[[int], Sequence[torch.Tensor]],
    sizes: Sequence[int],
    **options: object,
) -> dict[str, int]:
    """Check that training on the device and on the CPU agree, and return the graph event counts."""
    model = Graded(model)
    device_model = deepcopy(model).to("tpu")
    compiled = torch.compile(device_model, backend="tpu", **options)
    for size in sizes:
        args = make(size)
        expected, loss = model(*args)
        actual, own_loss = compiled(*_marked([x.to("tpu") for x in args], options))
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)
        assert actual.stride() == expected.stride()
        for module, result in ((model, loss), (device_model, own_loss)):
            module.zero_grad()
            result.backward()
        for (name, reference), own in zip(
            model.named_parameters(), device_model.parameters(), strict=True
        ):
            assert reference.grad is not None
            assert own.grad is not None
            torch.testing.assert_close(
                own.grad.cpu(),
                reference.grad,
                rtol=1e-3,
                atol=1e-4,
                msg=lambda m, n=name: f"{n}: {m}",
            )
    for (name, reference), own in zip(model.named_buffers(), device_model.buffers(), strict=True):
        torch.testing.assert_close(own.cpu(), reference, rtol=1e-4, atol=1e-4, msg=name)
    assert torch.tpu.metrics().exact == {}
    return torch.tpu.metrics().graphs


def _marked(args: list[torch.Tensor], options: dict[str, object]) -> list[torch.Tensor]:
    if options.get("dynamic") is None:
        torch._dynamo.mark_dynamic(args[0], 0)
    return args


@pytest.mark.full
def test_fifty_batches_of_a_network() -> None:
    sizes = list(range(2, 52))
    events = _train(_layers(), lambda rows: (torch.randn(rows, 5),), sizes)
    # Each of the buckets 8, 16, 32 and 64 has a forward and a backward program.
    assert events["compile"] == 2 * 4
    assert events["call"] == 2 * 50


@pytest.mark.full
def test_fifty_batches_where_any_size_may_change() -> None:
    sizes = list(range(2, 52))
    events = _train(_layers(), lambda rows: (torch.randn(rows, 5),), sizes, dynamic=True)
    # The first size has its own pair of programs. It is not padded, because no size has changed
    # yet.
    assert events["compile"] == 2 * 5


@pytest.mark.full
@pytest.mark.parametrize("formula", [False, *only_full(True)])
def test_a_transformer_with_changing_batches_and_lengths(formula: bool) -> None:
    def make(size: int) -> Sequence[torch.Tensor]:
        rows, length = 2 + size % 7, 3 + size * 5 % 30
        tokens = torch.randint(0, 11, (rows, length))
        return tokens, (tokens * 7 + 1) % 11

    events = _train(Language(formula=formula), make, range(8 if formula else 50), dynamic=True)
    # At most five pairs of forward and backward programs: one for the batch bucket 8 with each of
    # the length buckets 8, 16 and 32, one for the exact sizes of the first call, and one that pads
    # only the size that changes first.
    assert events["compile"] <= 2 * 5


@pytest.mark.full
def test_a_convolutional_network_with_changing_batches() -> None:
    events = _train(Pictures(), lambda n: (torch.randn(n, 3, 6, 6),), range(15, 65), dynamic=True)
    # The buckets 16, 32 and 64 and the first size have two programs each.
    assert events["compile"] == 2 * 4


def test_buckets_of_ones_own() -> None:
    double = torch.compile(
        lambda x: x.sum(0) * 2, dynamic=True, backend="tpu", options={"buckets": [3, 10]}
    )
    for size in (2, 3, 7, 10, 5):
        x = torch.randn(size, 4)
        torch.testing.assert_close(double(x.to("tpu")).cpu(), x.sum(0) * 2)
    assert torch.tpu.metrics().graphs["compile"] == 3
    x = torch.randn(11, 4)
    torch.testing.assert_close(double(x.to("tpu")).cpu(), x.sum(0) * 2)
    assert torch.tpu.metrics().exact == {"a size above the last bucket": 1}


def test_what_has_no_rule_runs_exactly(caplog: pytest.LogCaptureFixture) -> None:
    function = torch.compile(lambda x: x.diagonal() + 1, dynamic=True)
    with caplog.at_level(logging.INFO, "torch_google.tpu.compile.bucketed_graph"):
        for size in (3, 4, 5):
            x = torch.randn(size, size)
            torch.testing.assert_close(function(x.to("tpu")).cpu(), x.diagonal() + 1)
    assert torch.tpu.metrics().exact == {"aten::diagonal": 1}
    assert len([one for one in caplog.records if "aten::diagonal" in one.message]) == 1


def test_what_is_drawn_is_what_an_exact_program_draws() -> None:
    def drop(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.5) + torch.rand(x.shape, device=x.device)

    results = []
    for buckets in (True, False):
        torch._dynamo.reset()
        torch.manual_seed(3)
        function = torch.compile(drop, backend="tpu", options={"buckets": buckets})
        for sizes in ((3, 5), (6, 11)):
            x = torch.ones(sizes, device="tpu")
            for axis in (0, 1):
                torch._dynamo.mark_dynamic(x, axis)
            results.append(function(x).cpu())
    for padded, exact in zip(results[:2], results[2:], strict=True):
        torch.testing.assert_close(padded, exact)


def test_a_result_is_a_tensor_like_any_other() -> None:
    function = torch.compile(lambda x: (x + 1).mT, dynamic=True)
    for size in (3, 5, 6):
        x = torch.arange(size * 4.0).reshape(size, 4)
        actual = function(x.to("tpu"))
        assert actual.stride() == (x + 1).mT.stride()
        assert (actual * 2).sum().item() == ((x + 1) * 2).sum().item()
        actual[0] = 7
        expected = (x + 1).mT
        expected[0] = 7
        assert actual.tolist() == expected.tolist()
        assert actual.contiguous().view(-1)[-1].item() == expected[-1, -1].item()


def test_garbage_in_the_padding_is_not_seen() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        # If the padding is zero, 1 / x is infinite in the padding.
        ratio = 1 / x
        return (ratio / ratio) @ ratio.mT.log() @ ratio

    compiled = torch.compile(function, dynamic=True)
    for size in (3, 5, 6):
        x = torch.rand(size, 4) + 0.5
        torch.testing.assert_close(compiled(x.to("tpu")).cpu(), function(x), rtol=1e-4, atol=1e-4)
    assert torch.tpu.metrics().exact == {}


def _flattened(x: torch.Tensor) -> torch.Tensor:
    weight = torch.arange(18.0, device=x.device).view(3, 2, 3) / 9
    return F.conv1d(x.flatten(2), weight, padding=1).sin()


def _copied(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(x.numel(), device=x.device)
    out.copy_(x.flatten())
    return out + 1


def _copied_into_a_view(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    out.view(-1).copy_(x.flatten() * 2)
    return out + x


@pytest.mark.parametrize("function", [_flattened, _copied, _copied_into_a_view])
def test_padding_within_a_dimension(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    compiled = torch.compile(function)
    for size in (5, 6, 9):
        x = torch.randn(1, 2, 4, size, requires_grad=True)
        device_x = x.detach().to("tpu").requires_grad_()
        torch._dynamo.mark_dynamic(device_x, 3)
        expected, actual = function(x), compiled(device_x)
        torch.testing.assert_close(actual.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-4)
        expected.square().sum().backward()
        actual.square().sum().backward()
        assert x.grad is not None
        assert device_x.grad is not None
        torch.testing.assert_close(device_x.grad.cpu(), x.grad, rtol=1e-4, atol=1e-4)
    assert torch.tpu.metrics().exact == {}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int8, torch.float32])
def test_logsumexp_does_not_count_padding(dtype: torch.dtype) -> None:
    function = torch.compile(lambda x: x.logsumexp(0), dynamic=True)
    for size in (3, 5, 6):
        x = torch.ones(size, dtype=dtype)
        torch.testing.assert_close(function(x.to("tpu")).cpu(), x.logsumexp(0))
    assert torch.tpu.metrics().exact == {}


def _with_differences(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    # The bias has no batch or head dimension.
    bias = lengths[None, :] - lengths[:, None] * lengths[None, :]
    q = x.flatten(2, 3)
    return F.scaled_dot_product_attention(q, q, q, attn_mask=bias)


def _with_a_table(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    count = table.shape[0] * table.shape[1]
    q = x.flatten(2, 3)
    return F.scaled_dot_product_attention(q, q, q, attn_mask=table.reshape(1, 1, count, count))


def _with_a_mask(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    mask = lengths[None, :] > lengths[:, None] - 0.3
    q = x.flatten(2, 3)
    return F.scaled_dot_product_attention(q, q, q, attn_mask=mask) * lengths[:, None]


@pytest.mark.full
@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (_with_differences, lambda width: (3 * width,)),
        (_with_a_table, lambda width: (3, width, 3, width)),
        (_with_a_mask, lambda width: (3 * width,)),
    ],
)
def test_gradients_of_attention_and_its_bias(
    function: Callable[..., torch.Tensor], shape: Callable[[int], tuple[int, ...]]
) -> None:
    compiled = torch.compile(function, dynamic=True)
    for width in (5, 6, 7):
        x = torch.randn(1, 2, 3, width, 4, requires_grad=True)
        other = (torch.rand(shape(width)) + 1).requires_grad_()
        device_args = [arg.detach().to("tpu").requires_grad_() for arg in (x, other)]
        expected, actual = function(x, other), compiled(*device_args)
        torch.testing.assert_close(actual.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-4)
        expected.square().sum().backward()
        actual.square().sum().backward()
        for arg, own in zip((x, other), device_args, strict=True):
            assert arg.grad is not None
            assert own.grad is not None
            torch.testing.assert_close(own.grad.cpu(), arg.grad, rtol=1e-4, atol=1e-4)
    assert torch.tpu.metrics().exact == {}


@pytest.mark.skipif(V2_6, reason="v2.6 cannot trace `backward`, which compile_step needs")
@pytest.mark.parametrize("dims", [2, 4])
def test_steps_with_a_bias_that_is_infinite_in_padding(dims: int) -> None:
    def loss(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        q = x @ (device_bias if x.device.type == "tpu" else cpu_bias)
        bias = (lengths[None, :] / lengths[:, None]).view(*[1] * (dims - 2), *[len(lengths)] * 2)
        return F.scaled_dot_product_attention(q, q, q, attn_mask=bias).square().sum()

    cpu_bias = nn.Parameter(torch.randn(4, 4))
    device_bias = nn.Parameter(cpu_bias.detach().to("tpu"))
    step = compile_step(loss, torch.optim.SGD([device_bias], lr=0.01), dynamic=True)
    optimizer = torch.optim.SGD([cpu_bias], lr=0.01)
    for size in (5, 6, 7):
        x, lengths = torch.randn(1, 2, size, 4), torch.rand(size) + 1
        optimizer.zero_grad()
        loss(x, lengths).backward()
        optimizer.step()
        step(x.to("tpu"), lengths.to("tpu"))
        torch.testing.assert_close(
            device_bias.detach().cpu(), cpu_bias.detach(), rtol=1e-4, atol=1e-4
        )
    assert torch.tpu.metrics().exact == {}
