# SPDX-License-Identifier: Apache-2.0
"""Maps the kernels of fused programs to their torch operators, for profiler traces.

A fused program computes each operator in a scope named after the operator and its position in the
fused trace. So does a program of torch.compile, with the position in its graph. XLA stores the
names of the scopes in the compiled program, so a program from the compile cache has them as well.
They are read only when a profiler trace ends.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from torch_google.tpu.program import hlo

_FUNCTION = "fused_"
_COMPILED = "compiled_"
_PREFIX = "op:"
_SCOPE = re.compile(rf"{_PREFIX}(\d+):([\w.]+)")
# Opcodes of instructions that only run the computations that they call.
_CALLS = ("fusion", "call", "while", "conditional")


class Operator(NamedTuple):
    """An operator of a program: its position in the fused trace or in the graph, and its name."""

    position: int
    name: str


def scope(position: int, operator: str) -> str:
    """Return the name of the scope in which a program computes an operator."""
    name = re.sub(r"[^\w.]", "_", operator.removeprefix("aten::"))
    return f"{_PREFIX}{position}:{name}"


def function(fingerprint: str) -> str:
    """Return the name of a fused program's function, which identifies it in a profiler trace."""
    return f"{_FUNCTION}{_digits(fingerprint)}"


def compiled_function(fingerprint: str) -> str:
    """Return the name of the function of a program of torch.compile, as `function` does."""
    return f"{_COMPILED}{_digits(fingerprint)}"


def module(fingerprint: str) -> str:
    """Return the name of a fused program's HLO module."""
    return f"jit_{function(fingerprint)}"


def is_compiled(module: str) -> bool:
    """Return whether an HLO module of this name is a program of torch.compile."""
    return module.startswith(f"jit_{_COMPILED}")


def of_modules(modules: Collection[str]) -> dict[str, dict[str, tuple[Operator, ...]]]:
    """Map the name of each HLO module with several operators to its kernels and their operators.

    The programs are looked up among the executables loaded on the devices, because C++ keeps only
    the function that runs a program. Modules without a loaded executable are omitted.
    """
    import jax  # lazily, because registering the device imports this module, and must stay fast

    names = {name for name in modules if name.startswith((f"jit_{_FUNCTION}", f"jit_{_COMPILED}"))}
    kernels: dict[str, dict[str, tuple[Operator, ...]]] = {}
    clients = {id(device.client): device.client for device in jax.local_devices()}
    for client in clients.values() if names else ():
        for executable in client.live_executables():
            for module in executable.hlo_modules():
                if module.name in names - kernels.keys():
                    kernels[module.name] = operators(module.to_string())
            if len(kernels) == len(names):
                return kernels
    return kernels


def operators(text: str) -> dict[str, tuple[Operator, ...]]:
    """Map the instructions in the text of a program to the operators that they compute."""
    computations = {
        name: list(filter(None, map(hlo.Instruction.parsed, lines)))
        for name, lines in hlo.split(text).computations.items()
    }
    inner = {
        name: [each for instruction in instructions for each in _own(instruction)]
        for name, instructions in computations.items()
    }
    # XLA can deduplicate computations, so that several instructions call the same one. The scopes
    # in that computation then come from only one of the callers.
    calls = Counter(
        name
        for instructions in computations.values()
        for instruction in instructions
        for name in instruction.called
    )
    names = {}
    for instructions in computations.values():
        for instruction in instructions:
            called = [
                each
                for name in instruction.called
                if instruction.opcode in _CALLS and calls[name] == 1
                for each in inner.get(name, ())
            ]
            if called or _own(instruction):
                names[instruction.name] = tuple(dict.fromkeys(called or _own(instruction)))
    return names


def _digits(fingerprint: str) -> str:
    return fingerprint.rpartition(" ")[2][:12]


def _own(instruction: hlo.Instruction) -> list[Operator]:
    """Return the operator in whose scope an instruction was traced, as a list of 0 or 1 items."""
    return [Operator(int(at), name) for at, name in _SCOPE.findall(instruction.scope)[-1:]]
