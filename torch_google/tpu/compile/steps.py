# SPDX-License-Identifier: Apache-2.0
"""A training step as one program: forward, backward and the optimizer.

Dynamo ends its graphs at `backward`, and compiles `Optimizer.step` apart from what is around it. What
the optimizer computes is traced here from an object that is none to Dynamo: its methods, its groups
and its state.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torch_google.tpu.release import V2_6


def compile_step(
    loss: Callable[..., Any], optimizer: torch.optim.Optimizer, **options: Any
) -> Callable[..., Any]:
    """Return a function that does one step: it calls `loss`, and then the optimizer.

    `loss` returns a scalar, or a tuple of it and of anything else; what it returns comes back
    detached. Gradients are None before and after. `options` are those of torch.compile. Another
    learning rate never compiles again.

    Step counters of the optimizer lie on the device from then on (`capturable`), and hooks of its
    step are not called: ValueError where there are any, and where the optimizer changes a number of
    its groups that is no whole one. NotImplementedError with torch v2.6.
    """
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        raise ValueError(
            f"tpu: compile_step: {type(optimizer).__name__} has hooks for its step, which one "
            "program cannot call. Remove them, or use torch.compile(loss) and optimizer.step()"
        )
    made = _Optimizer.like(optimizer)
    if V2_6:
        raise NotImplementedError(
            "tpu: compile_step: torch v2.6 cannot trace `backward` into a program. "
            "Use torch.compile(loss) and optimizer.step()"
        )
    held = _Held()

    def step(rates: list[Any], args: Any, kwargs: Any) -> Any:
        result = loss(*args, **kwargs)
        (result[0] if isinstance(result, tuple) else result).backward()
        groups = [{**g, "lr": rate} for g, rate in zip(held.groups, rates, strict=True)]
        with torch.no_grad():
            made(groups, held.state, held.defaults).step()
        for group in held.groups:
            for parameter in group["params"]:
                parameter.grad = None
        result = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, result)
        return result, [_written(*both) for both in zip(held.groups, groups, strict=True)]

    compiled = torch.compile(step, fullgraph=True, **options)

    def run(*args: Any, **kwargs: Any) -> Any:
        optimizer.zero_grad()
        _initialise(optimizer)
        # Looked up again, as loading a state replaces them.
        held.state, held.defaults = optimizer.state, optimizer.defaults
        # A rate that is a tensor is an input of the program, however often it changes.
        groups = [dict(group) for group in optimizer.param_groups]
        rates = [_tensor(group.pop("lr", 0.0)) for group in groups]
        held.groups = groups
        with torch._dynamo.config.patch(trace_autograd_ops=True):
            result, changes = compiled(rates, args, kwargs)
        for group, written in zip(optimizer.param_groups, changes, strict=True):
            _update(group, written)
        optimizer._opt_called = True  # learning rate schedulers ask
        return result

    return run


class _Held:
    """What an optimizer has: no attributes of it are read while Dynamo traces."""

    groups: list[dict[str, Any]]
    state: Any
    defaults: dict[str, Any]


class _Optimizer:
    """The methods of an optimizer, without what torch wraps around them."""

    def __init__(self, groups: list[dict[str, Any]], state: Any, defaults: dict[str, Any]) -> None:
        self.param_groups = groups
        self.state = state
        self.defaults = defaults

    def step(self) -> Any:
        """Do what the optimizer's own method does; each kind of optimizer brings it."""
        raise NotImplementedError

    @staticmethod
    def like(optimizer: torch.optim.Optimizer) -> type[_Optimizer]:
        kind = type(optimizer)
        methods: dict[str, Any] = {}
        for base in reversed(kind.__mro__[:-1]):
            for name, member in vars(base).items():
                if isinstance(member, FunctionType) and not name.startswith("__"):
                    methods[name] = inspect.unwrap(member)
        if isinstance(optimizer, torch.optim.LBFGS):
            raise ValueError(
                "tpu: compile_step: LBFGS evaluates the loss as often as it likes, which is no one "
                "program. Use torch.compile(loss) and optimizer.step(closure)"
            )
        return type(kind.__name__, (_Optimizer,), methods)


def _written(before: dict[str, Any], group: dict[str, Any]) -> dict[str, Any]:
    """Return what the optimizer has written to a group: some count there. Dynamo traces this."""
    found = {}
    for name, value in group.items():
        if isinstance(value, torch.Tensor):
            changed = name != "lr" and value is not before.get(name)
        else:
            changed = isinstance(value, int | float) and value != before.get(name)
        if changed:
            found[name] = value
    return found


def _update(group: dict[str, Any], written: dict[str, Any]) -> None:
    group.update(written)
    for name, value in written.items():
        if isinstance(value, float):
            # torch's graphs return a number that is no whole one as it was when they were compiled.
            raise ValueError(
                f"tpu: compile_step: the optimizer has changed {name!r} of its group, a number that "
                "one program cannot return. This step is done; from now on use torch.compile(loss) "
                "and optimizer.step()"
            )


def _tensor(rate: float | torch.Tensor) -> torch.Tensor:
    return rate if isinstance(rate, torch.Tensor) else torch.tensor(rate, device="cpu")


def _initialise(optimizer: torch.optim.Optimizer) -> None:
    """Let an optimizer make its state now, and keep its counters on the device."""
    for group in optimizer.param_groups:
        fresh = [p for p in group["params"] if p.requires_grad and p not in optimizer.state]
        if not fresh:
            continue
        for parameter in fresh:
            parameter.grad = torch.zeros_like(parameter)
        if "capturable" in group:
            group["capturable"] = True
        if group.get("fused"):
            group["fused"] = None  # one program fuses by itself, and Dynamo refuses that kernel
        if hasattr(optimizer, "_init_group"):
            lists = len(inspect.signature(optimizer._init_group).parameters) - 1
            with torch.no_grad():
                optimizer._init_group(group, *([] for _ in range(lists)))
        for parameter in fresh:
            parameter.grad = None
            counter = optimizer.state[parameter].get("step")
            if isinstance(counter, torch.Tensor) and counter.device != parameter.device:
                optimizer.state[parameter]["step"] = counter.to(parameter.device)
