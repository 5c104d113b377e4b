# SPDX-License-Identifier: Apache-2.0
"""Fused programs, each of which runs a whole recorded trace.

C++ calls `fuse` for a new trace, which is then compiled in the background. Until the program is
ready, identical traces run operator by operator, which gives the same values.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from torch_google.tpu import _C
from torch_google.tpu.fused.background_compiler import BackgroundCompiler
from torch_google.tpu.fused.donation_order import DonationOrder, Step, behind
from torch_google.tpu.runtime import compiler, kernel_names, platform
from torch_google.tpu.shardings import ONE_DEVICE, Placement

_log = logging.getLogger(__name__)


def fuse(
    token: int,
    device: int,
    steps: Sequence[Step],
    kept: Sequence[int],
    donated: Sequence[int],
    pairs: int,
) -> tuple[str, jax.stages.Compiled | None]:
    """Return a trace's name and executable, or None if it will be compiled in the background.

    Profiler traces show the program under this name.

    A slot is the index of a result, numbered across all steps. An external is an input from outside
    the trace. `kept` lists the slots that the program returns, and `donated` the externals whose
    buffers it may reuse. For i < `pairs`, kept[i] is the next value of the tensor whose old value
    is donated[i]; these entries are in the order of the externals. Raises CacheMissError in
    cache-only mode.
    """
    fusion = Fusion(device, steps, kept, donated, pairs)
    stored = compiler.find_entry(fusion.fingerprint, fusion.devices)
    entry = stored and compiler.load_entry(stored)
    if entry is not None and entry.executable is not None:
        if isinstance(entry.note, int):
            compiler.tell_scratch(entry.executable, entry.note)
        return fusion.module, entry.executable
    compiler.check_allowed(fusion.name, fusion.fingerprint)
    _background.submit(fusion.compile, lambda executable: _C.resolve_fused(token, executable))
    return fusion.module, None


def attempt(
    executable: jax.stages.Compiled, arguments: list[Any], donated: Sequence[int]
) -> tuple[tuple[Any, ...] | list[Any], BaseException | None]:
    """Run a program for the first time. Return its results or, if it failed, its arguments.

    The program is a fused one, or a variant that writes to a storage in place (partial_write.cpp).

    The donated arguments are saved on the host until all results are ready, because a program that
    runs out of memory destroys them. The second returned value is None or an exception raised by a
    signal handler, such as KeyboardInterrupt. The caller must raise it after storing the values.
    """
    try:
        saved = {index: np.array(arguments[index]) for index in donated}
    except MemoryError as error:
        _warn_of(error)
        return arguments, None
    results: tuple[Any, ...] | None = None
    interruption: BaseException | None = None
    try:
        results = executable(*arguments)
    except jax.errors.JaxRuntimeError as error:
        _warn_of(error)
    except BaseException as error:  # noqa: BLE001 - from a signal handler; the caller raises it
        # A traceback would keep the variable `saved` alive.
        interruption = error.with_traceback(None)
    while results is not None:
        try:
            jax.block_until_ready(results)
            break
        except jax.errors.JaxRuntimeError as error:
            _warn_of(error)
            results = None
        except BaseException as error:  # noqa: BLE001 - as above; wait for the results again
            interruption = error.with_traceback(None)
    if results is not None:
        return results, interruption
    for index, values in saved.items():
        if arguments[index].is_deleted():
            arguments[index] = jax.device_put(values, arguments[index].sharding)
    return arguments, interruption


def _warn_of(error: Exception) -> None:
    _log.warning(
        "tpu: a program that donates its inputs failed: %s: %s. Its operators run without it from "
        "now on",
        type(error).__name__,
        str(error).strip().partition("\n")[0],
    )


def entry(executable: jax.stages.Compiled) -> Any:
    """Return the function to call: one without a Python frame after its first call, if JAX has one.

    In a Python frame, a signal handler could raise after the program has run. The results and the
    donated inputs would then be lost. For a program that calls Python functions, JAX has only
    Python functions.
    """
    call = getattr(executable, "_call", None)
    if call is None and isinstance(executable, jax.stages.Compiled):
        call = executable._call = executable._executable.create_cpp_call(executable._params)
    return call or executable


def register() -> None:
    """Register a hook that flushes the trace after each optimizer step. Idempotent.

    All training steps then use the same programs.
    """
    if not _hooks:
        _hooks.append(register_optimizer_step_post_hook(_after_step))


def wait_for_compiles() -> None:
    """Wait until all background compilations are done."""
    _background.wait()


class Fusion:
    """A trace to compile.

    The inputs of the program are the externals, which are values from outside the trace, then an
    array of all float scalars and an array of all integer scalars.
    """

    def __init__(
        self,
        device: int,
        steps: Sequence[Step],
        kept: Sequence[int],
        donated: Sequence[int],
        pairs: int,
    ) -> None:
        self.name = f"a trace of {len(steps)} operators"
        # C++ flushes a trace before an operator that uses a different mesh, so a trace has at most
        # one mesh.
        meshes = [compiled.mesh for compiled, _ in steps if compiled.mesh != ONE_DEVICE]
        self._placement = Placement(platform.device(device), *meshes[:1])
        self._steps = steps
        self._kept = kept
        self._donated = donated
        self._pairs = pairs

    @property
    def devices(self) -> Sequence[jax.Device]:
        """Return the devices that the trace runs on."""
        return self._placement.devices

    @cached_property
    def fingerprint(self) -> str:
        """Return a string that identifies this program across processes."""
        digest = hashlib.sha256()
        for compiled, wires in self._steps:
            digest.update(f"{compiled.fingerprint} {wires}\n".encode())
        digest.update(f"{self._kept} {self._donated} {self._pairs}".encode())
        return f"fused {len(self._steps)} {digest.hexdigest()}"

    @property
    def module(self) -> str:
        """Return the name of the program's HLO module."""
        return kernel_names.module(self.fingerprint)

    def compile(self) -> jax.stages.Compiled:
        """Compile the trace and return its executable."""
        return compiler.compiled(
            self.name,
            self.lower,
            fingerprint=self.fingerprint,
            on=self.devices,
            note=compiler.scratch,
        )

    def lower(self) -> jax.stages.Lowered:
        """Lower the trace and return the lowered program."""
        placement = self._placement
        externals = self._externals()
        codes = "".join(compiled.numbers for compiled, _ in self._steps)
        specs = [
            jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=placement.sharding(number))
            for aval, number in externals
        ]
        specs += [
            jax.ShapeDtypeStruct((codes.count(kind),), dtype, sharding=placement.sharding())
            for kind, dtype in (("f", "float64"), ("i", "int64"))
            if kind in codes
        ]

        def fused(*values: Any) -> tuple[Any, ...]:
            return self._run(values[: len(externals)], *values[len(externals) :])

        fused.__name__ = kernel_names.function(self.fingerprint)
        jitted = jax.jit(
            fused, out_shardings=self._out_shardings(), donate_argnums=self._reusable(externals)
        )
        return jitted.lower(*specs)

    def _out_shardings(self) -> Any:
        """Return the shardings of the kept slots, which must match the keys of later operators.

        On a mesh, a tensor that belongs to one device is replicated. C++ then extracts that
        device's copy.
        """
        if not self._placement.is_sharded:
            return self._placement.sharding()
        numbers = self._slot_shardings()
        return tuple(self._placement.sharding(numbers[slot]) for slot in self._kept)

    def _slot_shardings(self) -> list[int]:
        return [
            number
            for compiled, _ in self._steps
            for number in compiled.shardings or [ONE_DEVICE] * len(compiled.jaxpr.out_avals)
        ]

    def _run(self, externals: Sequence[Any], *numbers: Any) -> tuple[Any, ...]:
        # This import is slow, and only new programs need it.
        from jax.extend.core import jaxpr_as_fun

        codes = "".join(compiled.numbers for compiled, _ in self._steps)
        present = [kind for kind in "fi" if kind in codes]
        vectors = {kind: iter(vector) for kind, vector in zip(present, numbers, strict=True)}
        slots: list[Any] = []
        for position, (compiled, wires) in enumerate(self._steps):
            inputs = [externals[~wire] if wire < 0 else slots[wire] for wire in wires]
            inputs += [next(vectors[kind]) for kind in compiled.numbers]
            # XLA stores the scope's name in the program, so cached programs have it as well.
            with jax.named_scope(kernel_names.scope(position, compiled.name)):
                slots += jaxpr_as_fun(compiled.jaxpr)(*inputs)
        results = [slots[slot] for slot in self._kept]
        if self.devices[0].platform == "cpu" and not self._placement.is_sharded:
            order = DonationOrder(self._steps)
            for index, external in enumerate(self._donated[: self._pairs]):
                reads = order.of(external, self._kept[index])
                results[index] = behind(results[index], [slots[slot] for slot in reads])
        return tuple(results)

    def _externals(self) -> list[tuple[Any, int]]:
        """Return each external's spec and sharding, taken from the first step that reads it."""
        externals: dict[int, tuple[Any, int]] = {}
        for compiled, wires in self._steps:
            numbers = compiled.input_shardings or [ONE_DEVICE] * len(wires)
            for wire, aval, number in zip(wires, compiled.jaxpr.in_avals, numbers, strict=False):
                if wire < 0:
                    externals.setdefault(~wire, (aval, number))
        return [externals[index] for index in range(len(externals))]

    def _reusable(self, externals: Sequence[tuple[Any, int]]) -> tuple[int, ...]:
        """Return the indices of the donated inputs whose buffers the results can reuse.

        JAX matches donated buffers and results with the same spec (shape, dtype and sharding) in
        order. A tensor's old buffer must be matched with its next value. If another result got the
        buffer, XLA would first copy the old value, because the program still reads it. So an
        external without a next value is donated only if it comes after all old buffers with the
        same spec.

        Buffers that match no result are not donated, because JAX would warn about them. On a mesh,
        externals on one device are not donated either, because the program gets copies of them.
        """
        slots = [aval for compiled, _ in self._steps for aval in compiled.jaxpr.out_avals]
        numbers = self._slot_shardings()
        results = Counter((slots[s].shape, slots[s].dtype, numbers[s]) for s in self._kept)
        paired: dict[Any, int] = {}
        reusable = []
        for count, index in enumerate(self._donated):
            aval, number = externals[index]
            kind = (aval.shape, aval.dtype, number)
            if self._placement.is_sharded and number == ONE_DEVICE:
                continue
            if count < self._pairs:
                paired[kind] = index
            elif index < paired.get(kind, 0):
                continue
            if results[kind]:
                results[kind] -= 1
                reusable.append(index)
        return tuple(reusable)


def _after_step(*_: object) -> None:
    if torch.compiler.is_compiling():
        return  # Dynamo is tracing this hook; a compiled step records no operators
    if _C.mode() == _C.Mode.fused:
        _C.flush("optimizer step")


_background = BackgroundCompiler("tpu-compile")
_hooks: list[Any] = []
