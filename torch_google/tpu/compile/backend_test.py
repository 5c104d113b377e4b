# SPDX-License-Identifier: Apache-2.0

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import jax
import pytest
import torch
from torch import nn

from torch_google.tpu.compile import Carrier, backend, carry
from torch_google.tpu.compile import compiled as module
from torch_google.tpu.compile.compiled import Compiled


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    jax.config.update("jax_enable_x64", True)
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.second = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def test_forward_and_backward_are_those_of_the_cpu() -> None:
    net = Net()
    other = deepcopy(net)
    x = torch.randn(4, 6)
    compiled = torch.compile(net, backend=backend)
    ours, theirs = compiled(x), other(x)
    torch.testing.assert_close(ours, theirs)
    ours.square().mean().backward()
    theirs.square().mean().backward()
    for mine, its in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, its.grad)


def test_training_follows_the_cpu() -> None:
    net = Net()
    other = deepcopy(net)
    x, y = torch.randn(8, 6), torch.randint(3, (8,))
    compiled = torch.compile(net, backend=backend)
    losses: list[list[float]] = [[], []]
    for found, (model, parameters) in zip(
        losses, [(compiled, net.parameters()), (other, other.parameters())], strict=True
    ):
        optimizer = torch.optim.SGD(parameters, lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            found.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0][-1] < losses[0][0]


def test_what_the_function_writes_is_written() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + 1

    x = torch.ones(3)
    torch.testing.assert_close(torch.compile(step, backend=backend)(x), torch.full((3,), 3.0))
    torch.testing.assert_close(x, torch.full((3,), 2.0))


def test_one_program_for_each_size(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Compiled] = []
    initial = Compiled.__init__

    def remember(self: Compiled, *args: Any) -> None:
        made.append(self)
        initial(self, *args)

    monkeypatch.setattr(module.Compiled, "__init__", remember)
    function = torch.compile(lambda x: x * x.shape[0], backend=backend, dynamic=True)
    for size in (2, 5, 2, 7):
        torch.testing.assert_close(function(torch.ones(size, 3)), torch.full((size, 3), size * 1.0))
    assert [one.versions for one in made] == [3]


def test_options_are_refused() -> None:
    function = torch.compile(lambda x: x + 1, backend=backend, options={"fast": True})
    with pytest.raises(Exception, match=r"no option fast for the backend 'tpu'"):
        function(torch.ones(2))


def test_one_carrier_for_a_device() -> None:
    class Mine(Carrier):
        def take(self, tensor: torch.Tensor) -> Any:
            raise AssertionError

        def give(self, array: Any, like: torch.Tensor, device: torch.device) -> Any:
            raise AssertionError

        def key(self, device: torch.device) -> Any:
            raise AssertionError

    with pytest.raises(ValueError, match="serves tensors of 'cpu' already"):
        carry("cpu", Mine())


def test_tensors_of_other_devices_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="cannot run tensors of meta"):
        Compiled(torch.fx.symbolic_trace(nn.Identity()), [torch.device("meta")])([])
