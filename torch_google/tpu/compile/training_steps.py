# SPDX-License-Identifier: Apache-2.0
"""Compiles a training step to one program: the forward pass, the backward pass and the optimizer.

Dynamo breaks the graph at `backward`, and compiles `Optimizer.step` separately from the code around
it. So this module traces a substitute for the optimizer. It has the same methods, groups and state,
but Dynamo does not recognize it as an optimizer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import CellType, FunctionType, MethodType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torch_google.tpu.release import V2_6


def compile_step(
    loss: Callable[..., Any], optimizer: torch.optim.Optimizer, **options: Any
) -> Callable[..., Any]:
    """Return a function that runs a training step, which calls `loss` and then the optimizer.

    `loss` returns a scalar, or a tuple of a scalar and other values, and the step returns the same
    values, detached. Gradients are None before and after a step. `options` are those of
    torch.compile. Changing the learning rate never causes a recompilation.

    The optimizer may read and set its own attributes, and call `super()` without arguments.

    The program calls the gradient hooks of parameters (`Tensor.register_hook`). Raises ValueError
    for post-accumulate-grad hooks, and NotImplementedError for models that communicate outside
    graphs, such as DistributedDataParallel.

    The first step moves the optimizer's step counters to the device (`capturable`). Raises
    ValueError if the optimizer has step hooks, or if it changes a float in its groups, state or
    attributes. Raises NotImplementedError on torch v2.6.
    """
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        raise ValueError(
            f"tpu: compile_step: {type(optimizer).__name__} has hooks for its step, which one "
            "program cannot call. Remove them, or use torch.compile(loss) and optimizer.step()"
        )
    kind = _TracedOptimizer.like(optimizer)
    if V2_6:
        raise NotImplementedError(
            "tpu: compile_step: torch v2.6 cannot trace `backward` into a program. "
            "Use torch.compile(loss) and optimizer.step()"
        )
    held = _OptimizerParts()

    def step(rates: list[Any], args: Any, kwargs: Any) -> Any:
        result = loss(*args, **kwargs)
        (result[0] if isinstance(result, tuple) else result).backward()
        for parameter, hooks in held.hooks:
            for hook in hooks if parameter.grad is not None else ():
                gradient = hook(parameter.grad)
                if gradient is not None:
                    parameter.grad = gradient
        groups = [{**g, "lr": rate} for g, rate in zip(held.groups, rates, strict=True)]
        substitute = kind(groups, held.state, held.defaults, held.own, held.bound)
        with torch.no_grad():
            substitute.step()
        for group in held.groups:
            for parameter in group["params"]:
                parameter.grad = None
        result = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, result)
        written = [_written(*both) for both in zip(held.groups, groups, strict=True)]
        return result, written, substitute.set_in_step

    compiled = torch.compile(step, fullgraph=True, **options)

    def run(*args: Any, **kwargs: Any) -> Any:
        optimizer.zero_grad()
        initialise(optimizer)
        # Look up the state and defaults on every call, because loading a state dict can replace
        # them.
        held.state, held.defaults = optimizer.state, optimizer.defaults
        # Pass the learning rates as tensors, which makes them inputs of the program, so a new rate
        # does not recompile it.
        groups = [dict(group) for group in optimizer.param_groups]
        rates = [_tensor(group.pop("lr", 0.0)) for group in groups]
        held.groups = groups
        held.hooks = _hooks(groups)
        held.own, held.bound = _own(optimizer)
        before = _fractions(optimizer)
        with torch._dynamo.config.patch(trace_autograd_ops=True):
            try:
                result, changes, attributes = compiled(rates, args, kwargs)
            except torch._dynamo.exc.Unsupported as error:
                raise _of_wrapper(error) or error from None
        # Learning rate schedulers warn unless this is set.
        optimizer._opt_called = True
        for name, value in attributes.items():
            if not inspect.isdatadescriptor(getattr(type(optimizer), name, None)):
                setattr(optimizer, name, value)
        for group, written in zip(optimizer.param_groups, changes, strict=True):
            _update(group, written)
        after = _fractions(optimizer)
        for owner, numbers in before.items():
            if after.get(owner) != numbers:
                raise _changed(owner)
        return result

    return run


def _hooks(
    groups: list[dict[str, Any]],
) -> list[tuple[torch.Tensor, tuple[Callable[..., Any], ...]]]:
    """Return each parameter that has gradient hooks, with its hooks, which Dynamo would ignore."""
    hooks = []
    for group in groups:
        for parameter in group["params"]:
            if parameter._backward_hooks:
                hooks.append((parameter, tuple(parameter._backward_hooks.values())))
            if parameter._post_accumulate_grad_hooks:
                raise ValueError(
                    "tpu: compile_step: a parameter has post-accumulate-grad hooks, which one "
                    "program cannot call. Use register_hook, or torch.compile(loss) and "
                    "optimizer.step()"
                )
    return hooks


# Maps torch source paths to module wrappers. If a Dynamo error mentions such a path, the model uses
# that wrapper.
_WRAPPERS = {
    "torch/nn/parallel/distributed.py": "DistributedDataParallel",
    "torch/distributed/_composable/replicate.py": "replicate",
    "torch/distributed/fsdp/": "fully_shard",
}


def _of_wrapper(error: Exception) -> Exception | None:
    """Return the error for a model that communicates outside Dynamo's graphs.

    Returns None if `error` has another cause.
    """
    for file, name in _WRAPPERS.items():
        if file in str(error).replace("\\", "/"):
            return NotImplementedError(
                f"tpu: compile_step: {name} reduces gradients outside of graphs, so a step is not "
                "one program. Leave it out, and reduce the gradients in hooks of the parameters: "
                "parameter.register_hook(lambda gradient: all_reduce(gradient, 'avg', group)), with "
                "all_reduce of torch.distributed._functional_collectives. Or use "
                "torch.compile(model) and optimizer.step()"
            )
    return None


class _OptimizerParts:
    """The parts of an optimizer that `run` passes to the traced `step` through its closure."""

    groups: list[dict[str, Any]]
    hooks: list[tuple[torch.Tensor, tuple[Callable[..., Any], ...]]]
    state: Any
    defaults: dict[str, Any]
    own: dict[str, Any]
    bound: dict[str, str]


class _TracedOptimizer:
    """The base class of the copies that `like` makes of an optimizer's classes.

    Methods of the copies lack the wrappers that torch adds to the originals. `set_in_step` maps
    each attribute that the optimizer's step has set to its value.
    """

    set_in_step: dict[str, Any]

    def __init__(
        self,
        groups: list[dict[str, Any]],
        state: Any,
        defaults: dict[str, Any],
        own: dict[str, Any],
        bound: dict[str, str],
    ) -> None:
        shared = {"param_groups": groups, "state": state, "defaults": defaults, "set_in_step": {}}
        for name, value in {**own, **shared}.items():
            object.__setattr__(self, name, value)
        for name, method in bound.items():
            object.__setattr__(self, name, getattr(self, method))

    def __setattr__(self, name: str, value: Any) -> None:
        self.set_in_step[name] = value
        object.__setattr__(self, name, value)

    def step(self) -> Any:
        """Run the optimizer's step. Each copy of an optimizer class overrides this method."""
        raise NotImplementedError

    @staticmethod
    def like(optimizer: torch.optim.Optimizer) -> type[_TracedOptimizer]:
        if isinstance(optimizer, torch.optim.LBFGS):
            raise ValueError(
                "tpu: compile_step: LBFGS evaluates the loss as often as it likes, which one "
                "program cannot do. Use torch.compile(loss) and optimizer.step(closure)"
            )
        copies: dict[type, type] = {object: object}
        for kind in reversed(type(optimizer).__mro__[:-1]):
            cell = CellType()
            members = {
                name: _member(member, cell)
                for name, member in vars(kind).items()
                if not name.startswith("__")
            }
            root = kind is torch.optim.Optimizer
            bases = (_TracedOptimizer,) if root else tuple(copies[base] for base in kind.__bases__)
            copies[kind] = cell.cell_contents = type(kind.__name__, bases, members)
        return copies[type(optimizer)]


def _member(member: Any, cell: CellType) -> Any:
    """Return a copy of a class member for use in the class that `cell` contains."""
    if isinstance(member, FunctionType):
        return _method(inspect.unwrap(member), cell)
    if isinstance(member, staticmethod | classmethod):
        return type(member)(_method(member.__func__, cell))
    if isinstance(member, property):
        return property(*(_method(f, cell) for f in (member.fget, member.fset, member.fdel)))
    return member


def _method(function: Any, cell: CellType) -> Any:
    """Return a copy of a function in which `super()` refers to the class in `cell`."""
    if not isinstance(function, FunctionType) or "__class__" not in function.__code__.co_freevars:
        return function
    names = function.__code__.co_freevars
    cells = zip(names, function.__closure__ or (), strict=True)
    closure = tuple(cell if name == "__class__" else its for name, its in cells)
    moved = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, closure
    )
    moved.__kwdefaults__ = function.__kwdefaults__
    return moved


def _own(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the optimizer's attributes, except those that torch sets on every optimizer.

    The first dict maps attributes to their values. Attributes that are bound methods of the
    optimizer are in the second dict instead, which maps them to the names of the methods.
    """
    own: dict[str, Any] = {}
    bound: dict[str, str] = {}
    for name, value in vars(optimizer).items():
        if name in _OF_ALL or name.startswith("_optimizer_"):
            continue
        if isinstance(value, MethodType) and value.__self__ is optimizer:
            bound[name] = value.__name__
        else:
            own[name] = value
    return own, bound


def _fractions(optimizer: torch.optim.Optimizer) -> dict[str, list[float]]:
    """Return the floats in the optimizer's state, and in the attribute values that `_own` returns.

    The keys are descriptions of the state and the attributes, for error messages.
    """
    held: list[Any] = []
    for value in optimizer.state.values():
        held += value.values() if isinstance(value, dict) else [value]
    fractions = {"its state": [value for value in held if isinstance(value, float)]}
    for name, value in _own(optimizer)[0].items():
        leaves: list[Any] = []
        for leaf in pytree.tree_leaves(value):
            is_leaf = isinstance(leaf, torch.Tensor) or not hasattr(leaf, "__dict__")
            leaves += [leaf] if is_leaf else pytree.tree_leaves(list(vars(leaf).values()))
        fractions[f"its own {name!r}"] = [leaf for leaf in leaves if isinstance(leaf, float)]
    return {owner: numbers for owner, numbers in fractions.items() if numbers}


def _written(before: dict[str, Any], group: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of a parameter group that the optimizer has changed.

    Dynamo traces this function.
    """
    written = {}
    for name, value in group.items():
        if isinstance(value, torch.Tensor):
            changed = name != "lr" and value is not before.get(name)
        else:
            changed = isinstance(value, int | float) and value != before.get(name)
        if changed:
            written[name] = value
    return written


def _update(group: dict[str, Any], written: dict[str, Any]) -> None:
    group.update(written)
    for name, value in written.items():
        if isinstance(value, float):
            raise _changed(f"{name!r} of its group")


def _changed(owner: str) -> ValueError:
    # A graph that returns a float always returns the value from compile time.
    return ValueError(
        f"tpu: compile_step: the optimizer has changed {owner}, a number that one program cannot "
        "return. This step is done; from now on use torch.compile(loss) and optimizer.step()"
    )


def _tensor(rate: float | torch.Tensor) -> torch.Tensor:
    return rate if isinstance(rate, torch.Tensor) else torch.tensor(rate, device="cpu")


def initialise(optimizer: torch.optim.Optimizer) -> None:
    """Create the optimizer's state eagerly, with its counters on the device."""
    for group in optimizer.param_groups:
        fresh = [p for p in group["params"] if p.requires_grad and p not in optimizer.state]
        if not fresh:
            continue
        for parameter in fresh:
            parameter.grad = torch.zeros_like(parameter)
        if "capturable" in group:
            group["capturable"] = True
        if group.get("fused"):
            # Dynamo rejects the fused kernel, and the compiled step is fused anyway.
            group["fused"] = None
        if hasattr(optimizer, "_init_group"):
            lists = len(inspect.signature(optimizer._init_group).parameters) - 1
            with torch.no_grad():
                optimizer._init_group(group, *([] for _ in range(lists)))
        for parameter in fresh:
            parameter.grad = None
            counter = optimizer.state[parameter].get("step")
            if isinstance(counter, torch.Tensor) and counter.device != parameter.device:
                optimizer.state[parameter]["step"] = counter.to(parameter.device)


# Attributes that torch sets on every optimizer, and `step`, which a learning rate scheduler wraps.
_OF_ALL = frozenset(
    {
        "_opt_called",
        "_warned_capturable_if_run_uncaptured",
        "_zero_grad_profile_name",
        "defaults",
        "param_groups",
        "state",
        "step",
    }
)
