# SPDX-License-Identifier: Apache-2.0
"""Checks of input values, which run before an operator in debug mode.

The checks themselves are in lowerings/checks.py. A call's checks are compiled as a separate program
when the call first runs in debug mode, so they cost nothing in other modes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import jax

from torch_google.tpu.lowerings.checks import Checks
from torch_google.tpu.runtime import compiler

# An exception class and its message, in which {} stands for the offending value.
_Error: TypeAlias = tuple[type[Exception], str]


class CheckProgram:
    """A program's value checks, compiled on first use. `make` derives them from the inputs."""

    def __init__(
        self,
        make: Callable[..., Checks],
        specs: Sequence[Any],
        on: Any,
        *,
        name: str,
        fingerprint: str,
        devices: Sequence[jax.Device],
    ) -> None:
        self._make = make
        self._specs = specs
        self._on = on
        self._name = name
        self._fingerprint = fingerprint
        self._devices = devices
        self._made: tuple[Any, list[_Error]] | None = None

    def error(self, arguments: Sequence[Any]) -> _Error | None:
        """Return the class and message of the error for invalid `arguments`, or None.

        Raises CacheMissError in cache-only mode if the checks are not in the cache.
        """
        if self._made is None:
            self._made = self._compiled()
        executable, errors = self._made
        if not errors:
            return None
        results = jax.device_get(executable(*arguments))
        for (kind, template), (failed, values) in zip(errors, results, strict=True):
            if failed:
                return kind, template.format(*map(_number, values))
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
            on=self._devices,
        )
        return executable, errors


def attach(executable: Any, checked: CheckProgram) -> None:
    """Register the checks of an executable, for use by `error_of`."""
    _programs[executable] = checked


def error_of(executable: Any, arguments: Sequence[Any]) -> _Error | None:
    """Check an executable's arguments. Return the class and message of an error, or None."""
    checked = _programs.get(executable)
    return None if checked is None else checked.error(arguments)


def _number(value: Any) -> str:
    """Format a number as C++ would print it."""
    return f"{float(value):g}" if value.dtype.kind in "fV" else str(int(value))


_programs: WeakKeyDictionary[Any, CheckProgram] = WeakKeyDictionary()
