# SPDX-License-Identifier: Apache-2.0
"""Load a model from a file or a function. Only worker processes load models."""

from __future__ import annotations

import importlib
import io
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.export.passes import move_to_device_pass
from torch.utils import _pytree as pytree

from torch_google import gfile
from torch_google.serving.errors import ServingError
from torch_google.serving.model import Model
from torch_google.serving.signature import Size, TensorSpec
from torch_google.serving.source import Source


def load(source: Source, device: str, batch: int) -> Model:
    """Load a model onto a device, for batches of up to `batch` examples.

    Raises ServingError if the device or the source is unusable.
    """
    target = usable_device(device)
    if source.is_function:
        return _from_function(source, target, batch)
    if source.is_stablehlo:
        return _from_stablehlo(source, target)
    return _from_export(source, target, batch)


def usable_device(name: str) -> torch.device:
    """Return the device named `name`. Raises ServingError if it cannot run an operator."""
    try:
        if name.partition(":")[0] == "tpu" and not hasattr(torch, "tpu"):
            from torch_google.tpu import autoload

            autoload()
        device = torch.device(name)
        torch.ones(1, device=device).add(1)
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise ServingError(f"the device {name} cannot be used: {reason}. Use cpu") from error
    return device


def buckets(device: torch.device, batch: int) -> tuple[int, ...]:
    """Return the batch sizes: only a few on `tpu`, because each needs its own compiled program."""
    if device.type != "tpu":
        return tuple(range(1, batch + 1))
    return (*(1 << i for i in range(batch.bit_length()) if 1 << i < batch), batch)


def _from_function(source: Source, device: torch.device, batch: int) -> Model:
    module, _, name = source.model.partition(":")
    sys.path.insert(0, "")  # as `python -m` does, even in a PAR
    try:
        function: Callable[[], Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ServingError(
            f"{source.model}: {error}. Add the module to the program's deps, or correct the name"
        ) from error
    finally:
        sys.path.remove("")
    network, inputs = function()
    if not isinstance(network, torch.nn.Module) or not all(
        isinstance(each, TensorSpec) for each in inputs
    ):
        raise ServingError(f"{source.model}: return a module, and a list of serving.TensorSpec")
    if source.checkpoint:
        _load_weights(network, source.checkpoint)
    network = network.eval().to(device)
    sizes = buckets(device, batch)
    return Model(_compiled(network, device, len(sizes)), list(inputs), sizes, device)


def _from_export(source: Source, device: torch.device, batch: int) -> Model:
    program = torch.export.load(io.BytesIO(_read(source.model)))
    if device.type != "cpu":
        program = move_to_device_pass(program, device)
    graph = program.graph_signature
    placeholders = {
        node.name: node.meta["val"] for node in program.graph.find_nodes(op="placeholder")
    }
    examples = {name: placeholders[name] for name in graph.user_inputs if isinstance(name, str)}
    if len(examples) < len(graph.user_inputs) or not all(
        isinstance(each, torch.Tensor) for each in examples.values()
    ):
        raise ServingError(
            f"{source.model}: an input is not a tensor. Export it without that input"
        )
    ranges = program.range_constraints
    inputs, batch_sizes = [], set()
    for name, example in examples.items():
        if not example.shape:
            raise ServingError(f"{source.model}: the input {name} has no batch dimension")
        first, *rest = [_size(size, ranges) for size in example.shape]
        batch_sizes.add(first)
        inputs.append(TensorSpec.of(name, str(example.dtype), rest))
    if len(batch_sizes) != 1:
        raise ServingError(
            f"{source.model}: the inputs differ in dimension 0, the batch: "
            f"{', '.join(map(str, batch_sizes))}"
        )
    size = batch_sizes.pop()
    admitted = tuple(each for each in buckets(device, batch) if size.admits(each))
    sizes = admitted if size.low != size.high and admitted else (size.low,)
    structure = program.call_spec.in_spec

    module = _compiled(program.module(), device, len(sizes))

    def run(*values: torch.Tensor) -> Any:
        args, kwargs = pytree.tree_unflatten(list(values), structure)
        return module(*args, **kwargs)

    return Model(run, inputs, sizes, device)


def _size(size: Any, ranges: Mapping[Any, Any]) -> Size:
    """Return the allowed sizes of one dimension of an exported program's input."""
    if isinstance(size, int):
        return Size(size, size)
    expression = size.node.expr
    if expression not in ranges:
        raise ServingError(
            f"a dimension of an input is the expression {expression}; export it as a Dim"
        )
    bounds = ranges[expression]
    # For a Dim without `max`, torch's upper bound is a 19-digit number or infinity.
    high = int(bounds.upper) if bounds.upper < 1 << 31 else None
    return Size(int(bounds.lower), high)


def _from_stablehlo(source: Source, device: torch.device) -> Model:
    if device.type != "tpu":
        raise ServingError(
            f"{source.model}: XLA runs StableHLO, and the device {device} does not use XLA. Use the "
            "device tpu, which also works on a machine without TPUs"
        )
    from torch_google.tpu import load_stablehlo

    program = load_stablehlo(_read(source.model).decode())
    weights = [each.to(device) for each in _weights(source.checkpoint)]
    described = [f"{each.dtype} {list(each.shape)}" for each in program.inputs]
    actual = [f"{each.dtype} {list(each.shape)}" for each in weights]
    if described[: len(actual)] != actual or len(described) <= len(actual):
        raise ServingError(
            f"{source.model}: its inputs are {', '.join(described)}, and the checkpoint has "
            f"{', '.join(actual) or 'nothing'}. The first inputs are the weights; save these as a "
            "list, in that order"
        )
    rows = program.inputs[len(weights) :]
    if any(not each.shape for each in rows) or len({each.shape[0] for each in rows}) != 1:
        raise ServingError(f"{source.model}: its inputs differ in dimension 0, the batch")
    names = ["input"] if len(rows) == 1 else [f"input_{index}" for index in range(len(rows))]
    inputs = [
        TensorSpec.of(name, str(each.dtype), each.shape[1:])
        for name, each in zip(names, rows, strict=True)
    ]
    return Model(lambda *values: program(*weights, *values), inputs, (rows[0].shape[0],), device)


def _compiled(module: Any, device: torch.device, sizes: int) -> Callable[..., Any]:
    if device.type != "tpu":
        return module
    # Dynamo compiles one program per batch size, but by default it gives up after 8.
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, sizes + 1)
    return torch.compile(module, dynamic=False)


def _weights(checkpoint: str | None) -> Sequence[torch.Tensor]:
    if checkpoint is None:
        return []
    weights = _checkpoint(checkpoint)
    values = list(weights.values()) if isinstance(weights, Mapping) else weights
    if not isinstance(values, list) or not all(isinstance(each, torch.Tensor) for each in values):
        raise ServingError(f"{checkpoint}: found no list of tensors. Write it with torch.save")
    return [each.detach() for each in values]


def _load_weights(module: torch.nn.Module, checkpoint: str) -> None:
    state = _checkpoint(checkpoint)
    if isinstance(state, Mapping) and isinstance(state.get("state_dict"), Mapping):
        state = state["state_dict"]
    try:
        module.load_state_dict(state)
    except (RuntimeError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ServingError(f"{checkpoint}: it does not fit the module: {reason}") from error


def _checkpoint(path: str) -> Any:
    try:
        return torch.load(io.BytesIO(_read(path)), map_location="cpu", weights_only=True)
    except (
        RuntimeError,
        EOFError,
        ValueError,
        KeyError,
        torch.serialization.pickle.UnpicklingError,
    ) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ServingError(
            f"{path}: it is no checkpoint that torch.save wrote: {reason}"
        ) from error


def _read(path: str) -> bytes:
    try:
        with gfile.Open(path, "rb") as file:
            return bytes(file.read())
    except OSError as error:
        raise ServingError(f"{path}: cannot be read: {error}") from error
