# SPDX-License-Identifier: Apache-2.0
"""The torch operators of the kernels of fused programs, for traces.

A fused program computes each operator in a scope with the operator's name. XLA keeps the scopes in
the compiled program, and so does the compile cache. They are read only when a trace ends.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

_FUNCTION = "fused_"
_PREFIX = "op:"
_SCOPE = re.compile(rf"{_PREFIX}([\w.]+)")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.-]+) = ")
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.-]+) \(.*\{$")
_CALLS = re.compile(r"\b(?:calls|to_apply)=%?([\w.-]+)")


def scope(operator: str) -> str:
    """Return the name of the scope in which a fused program computes an operator."""
    return _PREFIX + re.sub(r"[^\w.]", "_", operator.removeprefix("aten::"))


def function(fingerprint: str) -> str:
    """Return the name of a fused program's function, which tells it from others in a trace."""
    return f"{_FUNCTION}{fingerprint.rpartition(' ')[2][:12]}"


def of_modules(modules: Collection[str]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Map the names of fused programs' modules to their kernels and those kernels' operators.

    The programs are found among those that the devices hold, because C++ keeps only the function
    that runs a program.
    """
    import jax  # lazily, because registering the device imports this module, and must stay fast

    names = {name for name in modules if name.startswith(f"jit_{_FUNCTION}")}
    kernels: dict[str, dict[str, tuple[str, ...]]] = {}
    clients = {id(device.client): device.client for device in jax.local_devices()}
    for client in clients.values() if names else ():
        for executable in client.live_executables():
            for module in executable.hlo_modules():
                if module.name in names - kernels.keys():
                    kernels[module.name] = operators(module.to_string().splitlines())
            if len(kernels) == len(names):
                return kernels
    return kernels


def operators(lines: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Map the instructions in the text of a program to the operators that they compute."""
    direct: dict[str, list[str]] = {}  # of an instruction, and of all instructions of a computation
    calls: dict[str, str] = {}
    computation = ""
    for line in lines:
        header = _COMPUTATION.match(line)
        if header:
            computation = f"{header[1]}()"
        instruction = _INSTRUCTION.match(line)
        if instruction:
            innermost = _SCOPE.findall(line)[-1:]
            direct.setdefault(computation, []).extend(innermost)
            direct.setdefault(instruction[1], []).extend(innermost)
            called = _CALLS.search(line)
            if called:
                calls[instruction[1]] = f"{called[1]}()"
    names = {}
    for name, own in direct.items():
        inner = direct.get(calls.get(name, ""), [])
        if (inner or own) and not name.endswith("()"):
            names[name] = tuple(dict.fromkeys(inner or own))
    return names
