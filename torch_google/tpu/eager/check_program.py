# SPDX-License-Identifier: Apache-2.0
"""What the debug mode asks of arguments before an operator runs: see lowerings/checks.py.

The checks of a call are one program more, which is compiled when it first runs in the debug mode.
Other modes pay nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import jax

from torch_google.tpu.lowerings.checks import Checks
from torch_google.tpu.runtime import compiler

# The kind of an error, and its words, with {} for the value that was found.
_Error: TypeAlias = tuple[type[Exception], str]


class CheckProgram:
    """The checks of one kind of call. `make` returns them for what the call's program is given."""

    def __init__(
        self,
        make: Callable[..., Checks],
        specs: Sequence[Any],
        on: Any,
        *,
        name: str,
        fingerprint: str,
        device: int,
    ) -> None:
        self._make = make
        self._specs = specs
        self._on = on
        self._name = name
        self._fingerprint = fingerprint
        self._device = device
        self._made: tuple[Any, list[_Error]] | None = None

    def error(self, arguments: Sequence[Any]) -> _Error | None:
        """Return the kind and the words of what is wrong with arguments, or None.

        Raises CacheMissError where the checks have to be compiled, and the thread may not.
        """
        if self._made is None:
            self._made = self._compiled()
        executable, errors = self._made
        if not errors:
            return None
        found = jax.device_get(executable(*arguments))
        for (kind, words), (failed, values) in zip(errors, found, strict=True):
            if failed:
                return kind, words.format(*map(_number, values))
        return None

    def _compiled(self) -> tuple[Any, list[_Error]]:
        errors: list[_Error] = []

        def function(*values: Any) -> list[tuple[Any, tuple[Any, ...]]]:
            checks = self._make(*values)
            errors.extend((check.kind, check.words) for check in checks)
            return [(check.failed, check.values) for check in checks]

        traced = jax.jit(function, out_shardings=self._on).trace(*self._specs)
        if not errors:
            return None, []
        executable = compiler.executable(
            f"the check of {self._name}",
            traced.lower,
            fingerprint=f"checks of {self._fingerprint}",
            device=self._device,
        )
        return executable, errors


def attach(executable: Any, checked: CheckProgram) -> None:
    """Have `error_of` ask these checks of what a program is given."""
    _programs[executable] = checked


def error_of(executable: Any, arguments: Sequence[Any]) -> _Error | None:
    """Return the kind and the words of what is wrong with a program's arguments, or None."""
    checked = _programs.get(executable)
    return None if checked is None else checked.error(arguments)


def _number(value: Any) -> str:
    """Return a number as C++ prints it."""
    return f"{float(value):g}" if value.dtype.kind in "fV" else str(int(value))


_programs: WeakKeyDictionary[Any, CheckProgram] = WeakKeyDictionary()
