# SPDX-License-Identifier: Apache-2.0
"""Estimates the memory use and run time of a model on TPUs, without needing a TPU."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import torch
from jax.sharding import Mesh

from torch_google.tpu import _C
from torch_google.tpu.estimate import filling, schedule
from torch_google.tpu.estimate.advice import advice, replicated
from torch_google.tpu.estimate.capture import Captured, Shard, capture
from torch_google.tpu.estimate.chips import SOURCE, Chip, chip
from torch_google.tpu.estimate.costs import Counted, count, is_copy, operator_costs
from torch_google.tpu.estimate.filling import FilledCache, check_cache
from torch_google.tpu.estimate.report import Buffer, Collective, Report
from torch_google.tpu.lowerings.partitioned_call import resolve
from torch_google.tpu.runtime.topology import Topology, topology

_UNITS = {"": 1, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def estimate(
    model: torch.nn.Module,
    inputs: Sequence[Any],
    *,
    topology: str = "v5e",
    loss: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    mesh: Mapping[str, int] | None = None,
    shard: Shard | None = None,
    fill_cache: bool = False,
) -> Report:
    """Return the estimate for a training step, or for `model(*inputs)` if `loss` is None.

    The model's tensors and the inputs must be on the `meta` device. They are replaced with tensors
    on the `tpu` device that have no data, so the model cannot be used afterwards. `loss(*inputs)`
    must return a scalar. The optimizer is AdamW by default.

    `mesh` maps the names of the mesh's axes to their sizes, as in `{"data": 4, "model": 4}`. The
    product of the sizes must not exceed the topology's number of devices. The first dimension of
    each input is sharded over the first axis. `shard(name, shape)` returns the mesh axis of each
    dimension of a parameter, or None for a dimension that is not sharded. By default, parameters
    are sharded over all axes, largest dimension first.

    With `fill_cache`, the program is also written to the compile cache, under the key that a job on
    these devices computes.

    Raises ValueError for an invalid topology, mesh or tensor, or if there is no cache to fill, and
    RuntimeError if libtpu is missing or the cache cannot be written.
    """
    if fill_cache:
        check_cache()
    described = _topology(topology)
    peaks = chip(described.generation)
    devices, made = _mesh(described, mesh)
    _check(model, inputs)
    _start()
    if loss is not None and optimizer is None:
        optimizer = torch.optim.AdamW(model.parameters())
    parameters = sum(p.numel() for p in model.parameters())
    captured = capture(model, loss, inputs, optimizer, devices=devices, mesh=made, shard=shard)
    began = time.monotonic()
    base: dict[str, Any] = {
        "topology": described.name,
        "mesh": dict(mesh or {}),
        "devices": len(captured.devices),
        "parameters": parameters,
        "available": int(peaks.usable),
        "trace_seconds": captured.seconds,
    }
    try:
        compiled = resolve(captured.lowered).compile()
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return _too_large(captured, error, time.monotonic() - began, base, peaks)
    seconds = time.monotonic() - began
    if fill_cache:
        filling.store(captured, compiled)
    return _report(captured, compiled, seconds, base, peaks)


def fill_for_cpu(
    model: torch.nn.Module,
    inputs: Sequence[Any],
    *,
    loss: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> FilledCache:
    """Write a step's programs for the `cpu` platform to the compile cache.

    The arguments are those of `estimate`. There is no report, because chips.py lists no peak
    performance for CPUs. Raises ValueError for a tensor that is not on `meta`, if there is no cache
    to fill, or if this process's platform is not `cpu`, and RuntimeError if the cache cannot be
    written.
    """
    _choose_cpu()
    check_cache()
    _check(model, inputs)
    _start()
    if loss is not None and optimizer is None:
        optimizer = torch.optim.AdamW(model.parameters())
    return filling.fill_on_cpu(model, inputs, loss=loss, optimizer=optimizer)


def _report(
    captured: Captured,
    compiled: jax.stages.Compiled,
    seconds: float,
    base: dict[str, Any],
    peaks: Chip,
) -> Report:
    memory: Any = compiled.memory_analysis()
    analysis: Any = compiled.cost_analysis() or {}
    operators, devices = captured.operators, len(captured.devices)
    text = str(compiled.as_text())
    counted = count(text, operators, devices, float(analysis.get("flops", 0.0)))
    instructions = counted.module.computations[counted.module.entry]
    arguments = int(memory.argument_size_in_bytes)
    results, aliased = int(memory.output_size_in_bytes), int(memory.alias_size_in_bytes)
    temporaries = int(memory.temp_size_in_bytes)
    code = int(memory.generated_code_size_in_bytes)
    kinds = counted.collectives
    return Report(
        **base,
        needed=arguments + results - aliased + temporaries + code,
        arguments=arguments,
        results=results,
        aliased=aliased,
        temporaries=temporaries,
        code=code,
        flops=counted.flops.total,
        model_flops=float(sum(o.flops for o in operators.values())),
        bytes=counted.bytes,
        compute_seconds=counted.flops.seconds(peaks),
        memory_seconds=counted.bytes / peaks.device_bandwidth,
        link_seconds=counted.sent / peaks.device_links,
        compile_seconds=seconds,
        buffers=buffers(captured, instructions, memory),
        costs=operator_costs(counted, operators, devices, peaks),
        collectives=tuple(
            Collective(kind, each.count, each.bytes, each.sent)
            for kind, each in sorted(kinds.items())
        ),
        advice=(
            *advice(operators.values()),
            *replicated(operators, counted.flops_of_nodes, devices),
        ),
        notes=_notes(counted),
    )


def _too_large(
    captured: Captured, error: Exception, seconds: float, base: dict[str, Any], peaks: Chip
) -> Report:
    """Return the report for a program that the compiler rejected for lack of memory."""
    message = str(error)
    required = re.search(r"(?:temporaries \(|Used )([\d.]+)([KMGT]?)", message)
    limit = re.search(r"available HBM \(([\d.]+)([KMGT]?)", message)
    sizes = [
        math.prod(s.shape) * s.dtype.itemsize for s in jax.tree.leaves(captured.lowered.in_avals)
    ]
    known = sum(sizes) // len(captured.devices)
    base = {**base, "available": _bytes(limit) if limit else base["available"]}
    return Report(
        **base,
        needed=_bytes(required) if required else known,
        arguments=known,
        results=0,
        aliased=0,
        temporaries=0,
        code=0,
        flops=0.0,
        model_flops=float(sum(o.flops for o in captured.operators.values())),
        bytes=0,
        compute_seconds=0.0,
        memory_seconds=0.0,
        link_seconds=0.0,
        compile_seconds=seconds,
        buffers=(),
        costs=(),
        collectives=(),
        advice=advice(captured.operators.values()),
        notes=("The compiler stopped, so there are no times.", SOURCE),
        error=message,
    )


def buffers(
    captured: Captured, instructions: Sequence[schedule.Instruction], memory: Any
) -> tuple[Buffer, ...]:
    """Return the buffers that are live at the peak, largest first.

    Their sizes add up to the program's memory use.
    """
    rows = []
    for instruction in instructions:
        if instruction.opcode == "parameter":
            index = instruction.argument
            names = captured.arguments
            name = names[index] if index is not None and index < len(names) else ""
            rows.append(Buffer(name or instruction.name, "argument", instruction.bytes))
    room = int(memory.temp_size_in_bytes)
    by_name = {i.name: i for i in instructions}
    for instruction in schedule.live_at_peak(instructions):
        if instruction.bytes > room:
            continue  # XLA writes this result into the buffer of an argument or result
        room -= instruction.bytes
        name = _label(captured, instruction, by_name)
        rows.append(Buffer(name, "temporary", instruction.bytes))
    if room:
        rows.append(Buffer("other temporaries, in loops or between buffers", "temporary", room))
    fresh = int(memory.output_size_in_bytes - memory.alias_size_in_bytes)
    rows.append(Buffer("results that replace no argument", "result", fresh))
    rows.append(Buffer("the program", "code", int(memory.generated_code_size_in_bytes)))
    return tuple(sorted((r for r in rows if r.bytes), key=lambda row: -row.bytes))


def _label(
    captured: Captured,
    instruction: schedule.Instruction,
    by_name: Mapping[str, schedule.Instruction],
) -> str:
    """Return the operator that writes a buffer, or the argument that XLA copies into it."""
    source: schedule.Instruction | None = instruction
    while source is not None and source.node is None and is_copy(source) and source.operands:
        source = by_name.get(source.operands[0])
    operator = captured.operators.get(-1 if source is None or source.node is None else source.node)
    if operator is not None:
        return " ".join(part for part in (operator.module, operator.op, operator.line) if part)
    index = source.argument if source is not None else None
    if index is not None and index < len(captured.arguments) and captured.arguments[index]:
        return f"copy of {captured.arguments[index]}"
    return instruction.name


def _notes(counted: Counted) -> tuple[str, ...]:
    notes = [
        "Compiled, never run: a roofline is a lower bound, and latencies are not in it.",
        "The module of a backward operator is that of the values that it uses.",
        SOURCE,
    ]
    unknown = counted.runs.unknown
    if unknown:
        notes.insert(1, f"Loops of unknown length: {unknown}. Their bodies count once.")
    if counted.sent:
        notes.insert(1, "Interconnect: what a device sends in a ring, over all of its links.")
    return tuple(notes)


def _bytes(size: re.Match[str]) -> int:
    return int(float(size[1]) * _UNITS[size[2]])


def _topology(name: str) -> Topology:
    _choose_cpu()
    return topology(name)


def _choose_cpu() -> None:
    # If libtpu is installed, JAX would otherwise wait for a TPU that this machine lacks.
    if not _C.started():
        os.environ.setdefault("TORCH_TPU_PLATFORM", "cpu")
        if jax.config.jax_platforms is None:
            jax.config.update("jax_platforms", "cpu")


def _start() -> None:
    from torch_google.tpu.registration import register

    register()
    torch.tpu.init()


def _mesh(
    described: Topology, sizes: Mapping[str, int] | None
) -> tuple[tuple[jax.Device, ...], Mesh | None]:
    if not sizes:
        return described.devices[:1], None
    count = math.prod(sizes.values())
    if count > len(described.devices) or count < 1:
        raise ValueError(
            f"tpu: estimate: the mesh has {count} devices, and {described.name} has "
            f"{len(described.devices)}. Choose a larger topology or a smaller mesh"
        )
    devices = described.devices[:count]
    # The mesh axes have the type Auto, so XLA chooses the shardings of intermediate values.
    return devices, Mesh(np.array(devices).reshape(tuple(sizes.values())), tuple(sizes))


def _check(model: torch.nn.Module, inputs: Sequence[Any]) -> None:
    named = (*model.named_parameters(), *model.named_buffers())
    tensors = [*named, *((f"input {i}", value) for i, value in enumerate(inputs))]
    for name, tensor in tensors:
        if isinstance(tensor, torch.Tensor) and tensor.device.type != "meta":
            raise ValueError(
                f"tpu: estimate: {name} is on {tensor.device}. Create the model and its inputs in "
                "`with torch.device('meta')`, so that they take no memory"
            )
