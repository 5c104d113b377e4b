# SPDX-License-Identifier: Apache-2.0

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn, optim

from torch_google.tpu.compile import compile_step
from torch_google.tpu.release import V2_6

Make = Callable[[Any], optim.Optimizer]


class _Pair:
    """A model with its data and optimizer on the CPU, and copies of them on the device."""

    def __init__(self, make: Make) -> None:
        self.on_cpu = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
        self.on_device = deepcopy(self.on_cpu).to("tpu")
        self.optimizers = [make(self.on_cpu.parameters()), make(self.on_device.parameters())]
        self.data = torch.randn(6, 8), torch.randn(6, 4)
        self.moved = [x.to("tpu") for x in self.data]

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (self.on_device(x) - y).square().mean()

    def reference(self) -> torch.Tensor:
        x, y = self.data
        self.optimizers[0].zero_grad()
        loss = (self.on_cpu(x) - y).square().mean()
        loss.backward()
        self.optimizers[0].step()
        return loss.detach()

    def check(self) -> None:
        for mine, its in zip(self.on_device.parameters(), self.on_cpu.parameters(), strict=True):
            torch.testing.assert_close(mine.cpu(), its, rtol=1e-4, atol=1e-5)


def _take(
    step: Callable[[], Any] | None, optimizer: optim.Optimizer, loss: Callable[[], torch.Tensor]
) -> None:
    """Take a training step with `step`, or eagerly if `step` is None."""
    if step is not None:
        step()
        return
    optimizer.zero_grad()
    loss().backward()
    optimizer.step()


MAKERS: dict[str, Make] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adamw": lambda p: optim.AdamW(p, lr=1e-2),
    "adam, one by one": lambda p: optim.Adam(p, lr=1e-2, foreach=False, amsgrad=True),
    "fused": lambda p: optim.AdamW(p, lr=1e-2, fused=True),
    "rmsprop": lambda p: optim.RMSprop(p, lr=1e-2, momentum=0.5),
}


@pytest.mark.skipif(V2_6, reason="v2.6 cannot trace a step")
@pytest.mark.parametrize("name", list(MAKERS))
def test_a_step_is_one_program(name: str) -> None:
    pair = _Pair(MAKERS[name])
    step = compile_step(pair.loss, pair.optimizers[1])
    for _ in range(4):
        torch.testing.assert_close(step(*pair.moved).cpu(), pair.reference())
    pair.check()
    assert all(parameter.grad is None for parameter in pair.on_device.parameters())
    graphs = torch.tpu.metrics().graphs
    assert graphs["call"] == 4
    # SGD needs two programs: its first step creates the momentum buffers that later steps read.
    assert graphs["compile"] == (2 if name == "sgd" else 1)
    assert "copy" not in graphs


@pytest.mark.skipif(V2_6, reason="v2.6 cannot trace a step")
def test_another_learning_rate_does_not_compile_again() -> None:
    pair = _Pair(MAKERS["adamw"])
    schedules = [optim.lr_scheduler.StepLR(o, 1, 0.5) for o in pair.optimizers]
    step = compile_step(pair.loss, pair.optimizers[1])
    for _ in range(4):
        torch.testing.assert_close(step(*pair.moved).cpu(), pair.reference())
        for schedule in schedules:
            schedule.step()
    pair.check()
    assert torch.tpu.metrics().graphs == {"compile": 1, "call": 4}


def test_model_and_optimizer_compiled_apart() -> None:
    pair = _Pair(MAKERS["adamw"])
    loss, update = torch.compile(pair.loss), torch.compile(pair.optimizers[1].step)
    for _ in range(4):
        pair.optimizers[1].zero_grad()
        value = loss(*pair.moved)
        value.backward()
        update()
        torch.testing.assert_close(value.detach().cpu(), pair.reference())
    pair.check()
    assert torch.tpu.metrics().graphs == {"compile": 3, "call": 12}


@pytest.mark.full
@pytest.mark.parametrize("backend", ["inductor", "tpu"])
def test_a_compiled_update_counts_on_the_device(backend: str) -> None:
    pair = _Pair(MAKERS["adamw"])
    update = torch.compile(pair.optimizers[1].step, backend=backend)
    for _ in range(3):
        pair.reference()
        pair.optimizers[1].zero_grad()
        pair.loss(*pair.moved).backward()
        update()
    pair.check()
    assert torch.tpu.metrics().graphs == {"compile": 1, "call": 3}
    states = pair.optimizers[1].state.values()
    assert {state["step"].device.type for state in states} == {"tpu"}
    pair.reference()
    pair.optimizers[1].zero_grad()
    pair.loss(*pair.moved).backward()
    pair.optimizers[1].step()  # take the next step in eager mode
    pair.check()


def test_a_whole_step_by_torch_compile() -> None:
    pair = _Pair(MAKERS["adamw"])

    @torch.compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = pair.loss(x, y)
        loss.backward()
        pair.optimizers[1].step()
        pair.optimizers[1].zero_grad()
        return loss

    for _ in range(4):
        torch.testing.assert_close(step(*pair.moved).detach().cpu(), pair.reference())
    pair.check()
    # Dynamo breaks the graph at `backward`, so the forward pass, the backward pass and the update
    # are separate programs.
    assert torch.tpu.metrics().graphs == {"compile": 3, "call": 12}


@pytest.mark.skipif(not V2_6, reason="later releases trace a step")
def test_a_release_that_cannot_trace_a_step_says_so() -> None:
    pair = _Pair(MAKERS["sgd"])
    with pytest.raises(NotImplementedError, match="Use torch.compile"):
        compile_step(pair.on_device, pair.optimizers[1])


@pytest.mark.skipif(V2_6, reason="v2.6 has no compile_step")
def test_hooks_of_gradients() -> None:
    pair = _Pair(lambda p: optim.SGD(p, lr=0.1))
    for model in (pair.on_cpu, pair.on_device):
        model[0].weight.register_hook(lambda gradient: gradient * 3)
        model[0].weight.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))
        model[2].bias.register_hook(lambda gradient: None)
    step = compile_step(pair.loss, pair.optimizers[1])
    for _ in range(3):
        step(*pair.moved)
        pair.reference()
        pair.check()
    model[2].bias.register_post_accumulate_grad_hook(lambda parameter: None)
    with pytest.raises(ValueError, match="a parameter has post-accumulate-grad hooks"):
        step(*pair.moved)


def test_hooks_are_refused() -> None:
    pair = _Pair(MAKERS["sgd"])
    pair.optimizers[1].register_step_post_hook(lambda *_: None)
    with pytest.raises(ValueError, match="SGD has hooks for its step"):
        compile_step(pair.loss, pair.optimizers[1])


def test_lbfgs_is_refused() -> None:
    pair = _Pair(lambda p: optim.LBFGS(p))
    with pytest.raises(ValueError, match="LBFGS evaluates the loss as often as it likes"):
        compile_step(pair.loss, pair.optimizers[1])


class _Decaying(torch.optim.Optimizer):
    """An optimizer that stores its step count in its parameter groups."""

    def __init__(self, parameters: list[torch.Tensor], decay: float = 1.0) -> None:
        super().__init__(parameters, {"lr": 1.0, "count": 0, "rate": 1.0, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            group["count"] += 1
            group["rate"] *= group["decay"]
            for parameter in group["params"]:
                parameter.sub_(parameter.grad * group["lr"] * group["rate"] / group["count"])


@pytest.mark.skipif(V2_6, reason="v2.6 cannot trace backward")
def test_what_an_optimizer_writes_to_its_groups_is_there_in_the_next_step() -> None:
    results = {}
    for device in ("cpu", "tpu"):
        weight = torch.nn.Parameter(torch.zeros(3, device=device))
        optimizer = _Decaying([weight])

        def loss(weight: torch.Tensor = weight) -> torch.Tensor:
            return (weight * 3).sum()

        step = compile_step(loss, optimizer) if device == "tpu" else None
        for _ in range(5):
            _take(step, optimizer, loss)
        group = optimizer.param_groups[0]
        results[device] = (weight.tolist(), group["count"], float(group["rate"]))
    assert results["tpu"][0] == pytest.approx(results["cpu"][0])
    assert results["tpu"][1:] == results["cpu"][1:]


@pytest.mark.skipif(V2_6, reason="v2.6 cannot trace backward")
def test_an_optimizer_that_changes_a_fraction_of_its_groups_is_refused() -> None:
    weight = torch.nn.Parameter(torch.zeros(3, device="tpu"))
    optimizer = _Decaying([weight], decay=0.5)
    step = compile_step(lambda: weight.sum(), optimizer)
    with pytest.raises(ValueError, match="has changed 'rate' of its group"):
        step()
    # The optimizer has completed the step despite the error.
    assert weight.tolist() == [-0.5] * 3
    assert optimizer.param_groups[0]["rate"] == 0.5


class _Signs(torch.optim.Optimizer):
    """An optimizer that steps by the sign of the gradient. `own` becomes its attributes."""

    def __init__(self, parameters: Any, **own: Any) -> None:
        super().__init__(parameters, {"lr": 0.5})
        for name, value in own.items():
            setattr(self, name, value)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(parameter.grad.sign() * group["lr"] * self.factor(parameter))

    def factor(self, parameter: torch.Tensor) -> Any:
        raise NotImplementedError


class _Scaled(_Signs):
    UNIT = 0.5
    calls = 0

    @property
    def twice(self) -> int:
        return 2 * self.calls

    @twice.setter
    def twice(self, value: int) -> None:
        self.calls = value // 2

    @staticmethod
    def more(count: int) -> int:
        return count + 1

    @classmethod
    def unit(cls) -> float:
        return cls.UNIT

    def factor(self, parameter: torch.Tensor) -> Any:
        return self.scale * self.unit() * self.more(self.twice)

    def step(self, closure: Any = None) -> None:
        super().step(closure)
        self.twice += 2


class _Tensors(_Signs):
    def factor(self, parameter: torch.Tensor) -> Any:
        return self.total + self.listed[0] + self.named["x"]

    def step(self, closure: Any = None) -> None:
        super().step(closure)
        self.total.add_(1)
        self.listed[0].mul_(0.5)
        self.named["x"] = self.named["x"] + 1
        self.latest = self.total * 2


class _Bound(_Signs):
    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, calls=0, note=None)
        self.factor = self.rising  # type: ignore[method-assign]

    def rising(self, parameter: torch.Tensor) -> int:
        self.calls += 1
        self.note = "rising"
        return self.calls


class _Clipped(optim.AdamW):
    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, lr=0.1)
        self.limit, self.calls = 0.5, 0

    def step(self, closure: Any = None) -> Any:
        self.calls += 1
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad.clamp_(-self.limit, self.limit)
        return super().step(closure)


def _five_steps(
    make: Make, device: str, before: Callable[[Any, int], None]
) -> tuple[list[float], optim.Optimizer]:
    weight = nn.Parameter(torch.tensor([1.0, -2.0], device=device))
    optimizer = make([weight])

    def loss() -> torch.Tensor:
        return weight.square().sum()

    step = compile_step(loss, optimizer) if device == "tpu" else None
    for turn in range(5):
        before(optimizer, turn)
        _take(step, optimizer, loss)
    return weight.tolist(), optimizer


def _tensors(parameters: Any) -> optim.Optimizer:
    def full(value: float) -> torch.Tensor:
        return torch.full((2,), value, device=parameters[0].device)

    return _Tensors(parameters, total=full(1.0), listed=[full(2.0)], named={"x": full(3.0)})


@pytest.mark.skipif(V2_6, reason="v2.6 cannot trace backward")
@pytest.mark.parametrize(
    "make",
    [lambda p: _Scaled(p, scale=2.0), _tensors, _Bound, _Clipped],
    ids=["numbers", "tensors", "a method", "a kind of torch's"],
)
def test_an_optimizer_with_attributes_of_its_own(make: Make) -> None:
    def nothing(optimizer: Any, turn: int) -> None:
        pass

    (expected, reference), (actual, optimizer) = (
        _five_steps(make, device, nothing) for device in ("cpu", "tpu")
    )
    assert actual == pytest.approx(expected, rel=1e-4)
    assert getattr(optimizer, "note", None) == getattr(reference, "note", None)
    for name in ("calls", "scale", "limit", "total", "listed", "named", "latest"):
        mine, its = (getattr(each, name, None) for each in (optimizer, reference))
        torch.testing.assert_close(mine, its, check_device=False)


@pytest.mark.skipif(V2_6, reason="v2.6 cannot trace backward")
def test_attributes_that_others_change() -> None:
    def change(optimizer: Any, turn: int) -> None:
        optimizer.scale = (turn + 1) / 4

    results = [
        _five_steps(lambda p: _Scaled(p, scale=2.0), device, change)[0] for device in ("cpu", "tpu")
    ]
    assert results[1] == pytest.approx(results[0])


class _Rate:
    def __init__(self) -> None:
        self.rate = 1.0


class _Halving(_Signs):
    """An optimizer that halves a float in its state, in an attribute, in a dict or in an object."""

    def factor(self, parameter: torch.Tensor) -> Any:
        if self.holder == "state":
            state = self.state[parameter]
            state["rate"] = state.get("rate", 1.0) * 0.5
            return state["rate"]
        if self.holder == "attribute":
            self.rate *= 0.5
            return self.rate
        if self.holder == "named":
            self.named["rate"] *= 0.5
            return self.named["rate"]
        self.inner.rate *= 0.5
        return self.inner.rate


@pytest.mark.skipif(V2_6, reason="v2.6 cannot trace backward")
@pytest.mark.parametrize(
    ("holder", "owner"),
    [
        ("state", "its state"),
        ("attribute", "its own 'rate'"),
        ("named", "its own 'named'"),
        ("inner", "its own 'inner'"),
    ],
)
def test_an_optimizer_that_changes_a_fraction_of_its_own_is_refused(
    holder: str, owner: str
) -> None:
    weight = nn.Parameter(torch.zeros(3, device="tpu"))
    held = {"rate": 1.0, "named": {"rate": 1.0}, "inner": _Rate()}
    step = compile_step(lambda: weight.sum(), _Halving([weight], holder=holder, **held))
    if holder == "state":
        step()  # the first step creates the state
    with pytest.raises(ValueError, match=f"has changed {owner}, a number that one program"):
        step()


@pytest.mark.full
@pytest.mark.skipif(V2_6, reason="v2.6 cannot trace backward")
@pytest.mark.parametrize(
    ("make", "changes"),
    [
        (
            lambda p: optim.SGD(p, lr=0.1, momentum=0.5, weight_decay=0.1),
            [{"weight_decay": decay, "momentum": decay / 2} for decay in (0.1, 0.2, 0.3, 0.4, 0.5)],
        ),
        (
            lambda p: optim.AdamW(p, lr=0.1),
            [{"betas": (0.9 - turn / 100, 0.999), "lr": 0.1 / (turn + 1)} for turn in range(5)],
        ),
    ],
)
def test_numbers_of_a_group_that_others_change(
    make: Callable[[Any], optim.Optimizer], changes: list[dict[str, Any]]
) -> None:
    results = {}
    for device in ("cpu", "tpu"):
        weight = nn.Parameter(torch.ones(3, device=device))
        optimizer = make([weight])

        def loss(weight: torch.Tensor = weight) -> torch.Tensor:
            return (weight * 3).square().sum()

        step = compile_step(loss, optimizer) if device == "tpu" else None
        for change in changes:
            optimizer.param_groups[0].update(change)
            if step is not None:
                step()
            else:
                optimizer.zero_grad()
                loss().backward()
                optimizer.step()
            for name, value in change.items():
                assert optimizer.param_groups[0][name] == value
        results[device] = weight.tolist()
    assert results["tpu"] == pytest.approx(results["cpu"], rel=1e-4)
