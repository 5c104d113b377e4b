# SPDX-License-Identifier: Apache-2.0
"""Traces a step into the program that a TPU job would compile, without allocating its tensors.

The step stops just before it would compile its program. Its tensors are on this process's device,
but own no memory. In the trace, shapes stand in for arrays, and a topology's devices for real ones.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import torch
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from torch._dynamo import config as dynamo_config
from torch._functorch import config as functorch_config
from torch.fx import Node
from torch.utils import flop_counter

from torch_google.tpu import _C, dtypes
from torch_google.tpu.compile.device_adapter import CpuAdapter, replaced_adapters
from torch_google.tpu.compile.evaluation import NODE_SCOPE
from torch_google.tpu.compile.training_steps import compile_step, initialise
from torch_google.tpu.release import recompile_limits
from torch_google.tpu.runtime.strides import natural
from torch_google.tpu.shardings import ONE_DEVICE, Placement, number_of
from torch_google.tpu.target_platform import tracing_for
from torch_google.tpu.torch_hooks.compile_adapter import TpuAdapter

# A function that takes a tensor's name and shape, and returns the mesh axes over which each
# dimension is distributed.
Shard = Callable[[str, tuple[int, ...]], Sequence[Any]]
# A limit that no trace reaches. During a trace, it replaces Dynamo's recompilation limits and the
# device's memory limit: traced tensors count toward the latter although they own no memory.
_NO_LIMIT = 1 << 62


@dataclass(frozen=True)
class Operator:
    """A node of the program's graph: an operator, the module that called it, and its source line.

    `flops` counts matmuls and convolutions, as torch's flop counter does, over all devices.
    `shapes` holds the shapes of the input tensors. `full` is True if any of them is float32 or
    float64.
    """

    op: str
    module: str
    line: str
    flops: int
    doubles: bool
    shapes: tuple[tuple[int, ...], ...] = ()
    full: bool = False


@dataclass(frozen=True)
class Captured:
    """A program that is lowered but not compiled. `arguments` holds the names of its arguments.

    `precision` is the JAX matmul precision with which a job on the target devices would compile it.
    """

    lowered: jax.stages.Lowered
    fingerprint: str | None
    arguments: tuple[str, ...]
    operators: Mapping[int, Operator]
    devices: tuple[jax.Device, ...]
    precision: str | None
    seconds: float


def capture(
    model: torch.nn.Module,
    loss: Callable[..., Any] | None,
    inputs: Sequence[Any],
    optimizer: torch.optim.Optimizer | None,
    *,
    devices: Sequence[jax.Device],
    mesh: Mesh | None,
    shard: Shard | None,
) -> Captured:
    """Return the program of a training step, or of a call to the model if `loss` is None.

    The model's tensors and the inputs are replaced, in place, with tensors without data.
    """
    names = _describe(model, optimizer, inputs)
    numbers = {} if mesh is None else _numbers(names, mesh, shard)
    adapter = _Adapter(devices, {n: name for n, (name, _, _) in names.items()}, numbers, mesh)
    operators: dict[int, Operator] = {}
    modules = {name for name, _ in model.named_modules() if name}
    limit = _C.memory_limit(0)
    began = time.monotonic()

    def scope(node: Node, position: int) -> Any:
        operators[position] = _operator(node, position, modules, owners)
        return jax.named_scope(f"n{position}")

    owners: dict[Node, str] = {}
    token = NODE_SCOPE.set(scope)
    try:
        with (
            replaced_adapters({"tpu": adapter, "cpu": _Recorder(adapter)}),
            # A graph from AOTAutograd's cache would lack module names and source lines.
            functorch_config.patch(enable_autograd_cache=False),
            # Each estimate traces the same functions again, for a different model or different
            # sizes. An estimate's program must not depend on earlier estimates.
            dynamo_config.patch(**recompile_limits(_NO_LIMIT), automatic_dynamic_shapes=False),
            tracing_for(devices[0].platform),
            jax.default_device(jax.local_devices(backend="cpu")[0]),
        ):
            _C.set_memory_limit(0, _NO_LIMIT)
            _run(model, loss, inputs, optimizer)
    except _Lowered as done:
        return Captured(
            done.lowered,
            done.fingerprint,
            tuple(adapter.arguments),
            operators,
            tuple(done.devices),
            done.precision,
            time.monotonic() - began,
        )
    finally:
        NODE_SCOPE.reset(token)
        _C.set_memory_limit(0, limit)
    raise ValueError(
        "tpu: estimate: the step compiled no program. It must use the inputs that it is given"
    )


class _Lowered(Exception):
    """Raised to end a step just before its first program is compiled."""

    def __init__(
        self, lowered: Any, fingerprint: str | None, devices: Sequence[jax.Device]
    ) -> None:
        super().__init__("a program has been lowered")
        self.lowered, self.fingerprint, self.devices = lowered, fingerprint, devices
        self.precision: str | None = jax.config.jax_default_matmul_precision


class _Adapter(TpuAdapter):
    """A TpuAdapter that uses shapes instead of arrays, and the devices of a topology."""

    def __init__(
        self,
        devices: Sequence[jax.Device],
        names: Mapping[int, str],
        numbers: Mapping[int, int],
        mesh: Mesh | None,
    ) -> None:
        self.arguments: list[str] = []
        self._devices, self._names, self._shardings = devices, names, numbers
        self._replicated = (
            ONE_DEVICE if mesh is None else number_of(NamedSharding(mesh, PartitionSpec()))
        )

    def take(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        return [
            jax.ShapeDtypeStruct(natural(tuple(t.shape), t.stride()).shape, dtypes.to_jax(t.dtype))
            for t in tensors
        ]

    def shardings(self, tensors: Sequence[torch.Tensor]) -> Sequence[int]:
        if self._replicated == ONE_DEVICE:
            return ()
        return [self._shardings.get(id(tensor), self._replicated) for tensor in tensors]

    def layout(self, tensor: torch.Tensor) -> Hashable:
        self.record(tensor)
        return super().layout(tensor)

    def record(self, tensor: torch.Tensor) -> None:
        self.arguments.append(self._names.get(id(tensor), ""))

    def placement(self, device: torch.device, shardings: Sequence[int] = ()) -> Placement:
        return Placement.of(self._devices[0], shardings)

    def compile(
        self,
        name: str,
        lower: Callable[[], jax.stages.Lowered],
        fingerprint: str | None,
        placement: Placement,
    ) -> jax.stages.Compiled:
        raise _Lowered(lower(), fingerprint, placement.devices)


class _Recorder(CpuAdapter):
    """A CpuAdapter that also records the names of CPU arguments, such as learning rates."""

    def __init__(self, adapter: _Adapter) -> None:
        self._adapter = adapter

    def layout(self, tensor: torch.Tensor) -> Hashable:
        self._adapter.record(tensor)
        return super().layout(tensor)


def _run(
    model: torch.nn.Module,
    loss: Callable[..., Any] | None,
    inputs: Sequence[Any],
    optimizer: torch.optim.Optimizer | None,
) -> None:
    if loss is not None:
        assert optimizer is not None
        compile_step(loss, optimizer, backend="tpu")(*inputs)
        return
    with torch.no_grad():
        torch.compile(model, backend="tpu", fullgraph=True)(*inputs)


def _describe(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer | None, inputs: Sequence[Any]
) -> dict[int, tuple[str, torch.Tensor, str]]:
    """Map each tensor's id to its name, the tensor itself, and its owner's name.

    A parameter or buffer is its own owner, optimizer state belongs to its parameter, and the owner
    of an input is "". All tensors are replaced, in place, with tensors without data.
    """
    names: dict[int, tuple[str, torch.Tensor, str]] = {}

    def describe(name: str, tensor: torch.Tensor, owner: str) -> None:
        if id(tensor) not in names:
            names[id(tensor)] = (name, tensor, owner)
            with _unlimited():
                _replace(tensor)

    if optimizer is not None:
        initialise(optimizer)  # the parameters are on meta, so the state allocates nothing
    parameters = {id(p): name for name, p in model.named_parameters()}
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        describe(name, tensor, name)
    for parameter, state in {} if optimizer is None else optimizer.state.items():
        own = parameters.get(id(parameter), "")
        for key, value in state.items() if isinstance(state, dict) else ():
            if isinstance(value, torch.Tensor):
                describe(f"{key} of {own}", value, own)
    for index, value in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            describe(f"input {index}", value, "")
    return names


def _replace(tensor: torch.Tensor) -> None:
    if tensor.device.type == "cpu":
        return  # such a tensor is a scalar that the optimizer stores on the CPU
    empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="tpu")
    if isinstance(tensor, torch.nn.Parameter):
        empty = torch.nn.Parameter(empty, tensor.requires_grad)
    torch.utils.swap_tensors(tensor, empty)


@contextmanager
def _unlimited() -> Iterator[None]:
    limit = _C.memory_limit(0)
    _C.set_memory_limit(0, _NO_LIMIT)
    try:
        yield
    finally:
        _C.set_memory_limit(0, limit)


def _numbers(
    names: Mapping[int, tuple[str, torch.Tensor, str]], mesh: Mesh, shard: Shard | None
) -> dict[int, int]:
    """Map tensor ids to sharding indices. Optimizer state gets the sharding of its parameter."""
    shapes = {name: tuple(tensor.shape) for name, tensor, _ in names.values()}
    numbers = {}
    for key, (name, tensor, owner) in names.items():
        shape = tuple(tensor.shape)
        if not owner:
            spec: Sequence[Any] = batch_spec(shape, mesh)
        elif shape != shapes.get(owner):
            spec = ()
        else:
            spec = shard(owner, shape) if shard else largest_first(shape, mesh)
        _check_spec(name, shape, spec, mesh)
        numbers[key] = number_of(NamedSharding(mesh, PartitionSpec(*spec)))
    return numbers


def batch_spec(shape: tuple[int, ...], mesh: Mesh) -> Sequence[Any]:
    """Return a spec that shards an input's first dimension over the mesh's first axis."""
    axis = str(mesh.axis_names[0])
    return (axis,) if shape and shape[0] % mesh.shape[axis] == 0 else ()


def largest_first(shape: tuple[int, ...], mesh: Mesh) -> Sequence[Any]:
    """Return a spec that shards a parameter over the mesh's axes, largest dimension first.

    An axis is not used if its size divides none of the remaining dimensions.
    """
    spec: list[Any] = [None] * len(shape)
    for axis in map(str, mesh.axis_names):
        for index in sorted(range(len(shape)), key=lambda i: -shape[i]):
            if spec[index] is None and shape[index] % mesh.shape[axis] == 0:
                spec[index] = axis
                break
    return spec


def _check_spec(name: str, shape: tuple[int, ...], spec: Sequence[Any], mesh: Mesh) -> None:
    for size, part in zip(shape, spec, strict=False):
        axes = () if part is None else part if isinstance(part, tuple) else (part,)
        for axis in axes:
            if axis not in mesh.shape:
                raise ValueError(
                    f"tpu: estimate: {name}: the mesh has no axis {axis!r}, only "
                    f"{', '.join(map(str, mesh.axis_names))}"
                )
            size, rest = divmod(size, mesh.shape[axis])
            if rest:
                raise ValueError(
                    f"tpu: estimate: {name} of shape {shape}: {mesh.shape[axis]} devices of the axis "
                    f"{axis!r} do not divide it. Choose another dimension or mesh"
                )


def _operator(node: Node, position: int, modules: set[str], owners: dict[Node, str]) -> Operator:
    """Describe a graph node. A backward node is attributed to the module whose values it uses."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [value[0] if isinstance(value, tuple) else str(value) for value in stack.values()]
    module = next((m for m in (_module(path, modules) for path in reversed(paths)) if m), "")
    trace = node.meta.get("stack_trace") or ""
    if not module and "torch/optim/" in trace:
        module = "optimizer"
    elif not module and not paths:
        used = [owners[arg] for arg in node.all_input_nodes if owners.get(arg)]
        module = used[-1].removesuffix(" (backward)") + " (backward)" if used else ""
    owners[node] = "" if module == "optimizer" else module
    value = node.meta.get("val")
    values = value if isinstance(value, list | tuple) else [value]
    doubles = any(isinstance(v, torch.Tensor) and v.dtype == torch.float64 for v in values)
    op = str(node.target).removeprefix("aten.").removesuffix(".default")
    metas = [arg.meta.get("val") for arg in node.all_input_nodes]
    tensors = [m for m in metas if isinstance(m, torch.Tensor)]
    shapes = tuple(tuple(map(int, t.shape)) for t in tensors)
    full = any(t.dtype in (torch.float32, torch.float64) for t in tensors)
    return Operator(op, module, _line(trace), _flops(node), doubles, shapes, full)


def _module(path: str, modules: set[str]) -> str:
    """Return the longest suffix of Dynamo's module path that is in `modules`, or "" if none is."""
    path = re.sub(r"\._modules\['(\w+)'\]", r".\1", path)
    parts = path.split(".")
    return next((n for i in range(len(parts)) if (n := ".".join(parts[i:])) in modules), "")


def _line(trace: str) -> str:
    """Return the innermost stack frame outside torch and the compiler, as `file:line` or ""."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', trace)
    for file, line in reversed(frames):
        if "/torch/" not in file and "torch_google/tpu/compile/" not in file:
            return f"{file.rpartition('/')[2]}:{line}"
    return ""


def _flops(node: Node) -> int:
    packet = getattr(node.target, "overloadpacket", None)
    count = flop_counter.flop_registry.get(packet)
    if count is None:
        return 0
    val = lambda n: n.meta.get("val")  # noqa: E731
    args = torch.fx.node.map_arg(node.args, val)
    kwargs = torch.fx.node.map_arg(node.kwargs, val)
    return int(count(*args, **kwargs, out_val=node.meta.get("val")))
