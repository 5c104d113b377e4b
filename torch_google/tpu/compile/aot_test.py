# SPDX-License-Identifier: Apache-2.0

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn

from torch_google.tpu.compile import backend, register_adapter
from torch_google.tpu.compile.device_adapter import adapter_of


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.second = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.head = nn.Linear(8 * 16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x).flatten(1))


def block() -> nn.Module:
    return nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True, norm_first=True)


@pytest.mark.full
@pytest.mark.parametrize(
    ("make", "shape"),
    [(Net, (4, 6)), (block, (2, 5, 16)), (Convolutions, (4, 3, 8, 8))],
    ids=["mlp", "transformer", "convolutions"],
)
def test_training_is_that_of_the_cpu(make: Any, shape: tuple[int, ...]) -> None:
    model = make()
    device_model = deepcopy(model).to("tpu")
    compiled = torch.compile(device_model, fullgraph=True)
    for _ in range(3):
        x = torch.randn(shape)
        expected, actual = model(x), compiled(x.to("tpu"))
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5)
        expected.square().mean().backward()
        actual.square().mean().backward()
    for mine, its in zip(device_model.parameters(), model.parameters(), strict=True):
        assert mine.grad is not None
        assert its.grad is not None
        torch.testing.assert_close(mine.grad.cpu(), its.grad, rtol=1e-3, atol=1e-5)
    for mine, its in zip(device_model.buffers(), model.buffers(), strict=True):
        torch.testing.assert_close(mine.cpu(), its)
    assert torch.tpu.metrics().graphs["compile"] == 2
    assert torch.tpu.metrics().graphs["call"] == 6


def test_tensors_of_the_cpu_without_a_device() -> None:
    net = Net()
    x = torch.randn(4, 6)
    expected = net(x)
    actual = torch.compile(net, backend=backend)(x)
    torch.testing.assert_close(actual, expected)
    assert actual.device.type == "cpu"


def test_options_are_refused() -> None:
    function = torch.compile(lambda x: x + 1, backend="tpu", options={"fast": True})
    with pytest.raises(
        Exception,
        match=r"no option fast for the backend 'tpu'.*Use some of: buckets, donate, max_prog",
    ):
        function(torch.ones(2, device="tpu"))


def test_one_adapter_for_a_device() -> None:
    with pytest.raises(ValueError, match="already serves tensors of 'cpu'"):
        register_adapter("cpu", type(adapter_of(torch.device("cpu")))())


def test_tensors_of_other_devices_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="cannot run tensors on meta"):
        adapter_of(torch.device("meta"))


def test_a_mask_made_in_the_graph_hides_no_nan() -> None:
    # The product 0 * nan must be nan, although the compiler can see that the 0 is a converted
    # False.
    def masked(x: torch.Tensor) -> torch.Tensor:
        return x * (x > 0).float()

    x = torch.tensor([float("nan"), float("inf"), -1.0, 2.0])
    actual = torch.compile(masked, fullgraph=True)(x.to("tpu")).cpu()
    torch.testing.assert_close(actual, masked(x), equal_nan=True)
