# SPDX-License-Identifier: Apache-2.0
"""Writes a step's program to the compile cache, so that a job that starts later finds it there.

The key of an entry is the graph's fingerprint, together with everything else that the code depends
on. `capture` computes the same fingerprint as a job, and a topology describes its devices in the
same form as a running TPU, so the job computes the same key.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import torch

from torch_google.tpu import cache
from torch_google.tpu.compile.training_steps import initialise
from torch_google.tpu.estimate.capture import Captured, capture
from torch_google.tpu.program import compile_safely
from torch_google.tpu.runtime import platform


@dataclass(frozen=True)
class FilledCache:
    """The result of filling the compile cache at `path`.

    `programs` is the number of programs written: the step's program and, on the `cpu` platform,
    those that create the optimizer's state. `fingerprint` identifies the step's program.
    """

    path: str
    programs: int
    fingerprint: str

    def text(self) -> str:
        """Return a one-line summary for users."""
        plural = "" if self.programs == 1 else "s"
        return f"Compile cache {self.path}: {self.programs} program{plural} written"


def fill_on_cpu(
    model: torch.nn.Module,
    inputs: Sequence[Any],
    *,
    loss: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> FilledCache:
    """Compile a step for this process's device 0, and write its programs to the compile cache.

    The arguments are those of `estimate`, and the platform must be `cpu`. Also writes the programs
    that create the optimizer's state. Those run in this process, on one parameter of each shape.
    """
    place = check_cache()
    if platform.name() != "cpu":
        raise ValueError(
            f"tpu: estimate: this process runs on {platform.name()}. Set TORCH_TPU_PLATFORM=cpu"
        )
    before = cache.statistics().stored
    devices = jax.local_devices(backend="cpu")[:1]
    captured = capture(model, loss, inputs, optimizer, devices=devices, mesh=None, shard=None)
    fingerprint = store(captured, compile_safely(captured.lowered))
    if loss is not None and optimizer is not None:
        _create_state(optimizer)
    return FilledCache(place, cache.statistics().stored - before, fingerprint)


def check_cache() -> str:
    """Return the location of the compile cache. Raises ValueError if there is none."""
    place = cache.get_compile_cache()
    if place is None:
        raise ValueError(
            "tpu: estimate: there is no compile cache to fill. Set TORCH_TPU_COMPILE_CACHE or call "
            "torch.tpu.set_compile_cache"
        )
    return place


def store(captured: Captured, compiled: jax.stages.Compiled) -> str:
    """Write a program under a job's key, and return its fingerprint.

    Raises RuntimeError if the entry could not be written.
    """
    fingerprint = captured.fingerprint
    if fingerprint is None:  # runtime/compiler.py computes the same key for such a program
        text = captured.lowered.as_text()
        fingerprint = f"module {hashlib.sha256(text.encode()).hexdigest()}"
    before = cache.statistics().stored
    with jax.default_matmul_precision(captured.precision):  # it is part of the key
        cache.store_entry(fingerprint, captured.devices, cache.Entry(compiled, None))
    if cache.statistics().stored == before:
        raise RuntimeError(
            f"tpu: estimate: the program was not written to {cache.get_compile_cache()}: it cannot "
            "be serialized, it exceeds the limit, or the directory cannot be written"
        )
    return fingerprint


def _create_state(optimizer: torch.optim.Optimizer) -> None:
    """Run the programs that a job's first step runs to create the optimizer's state."""
    twin = object.__new__(type(optimizer))
    twin.__dict__.update(optimizer.__dict__)
    twin.state = defaultdict(dict)
    twin.param_groups = [
        {**group, "params": list(_one_of_each(group["params"]))} for group in optimizer.param_groups
    ]
    initialise(twin)


def _one_of_each(parameters: Iterable[torch.Tensor]) -> Iterable[torch.nn.Parameter]:
    kinds: Mapping[Any, None] = dict.fromkeys(
        (p.shape, p.stride(), p.dtype, p.requires_grad) for p in parameters
    )
    for shape, stride, dtype, requires_grad in kinds:
        tensor = torch.empty_strided(shape, stride, dtype=dtype, device="tpu")
        yield torch.nn.Parameter(tensor, requires_grad)
