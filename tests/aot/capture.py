# SPDX-License-Identifier: Apache-2.0
"""Capture the programs that the device compiles on the CPU, and lower them for another platform."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

import jax

from tests.aot.rows import Program
from tests.aot.store import Store
from torch_google.tpu import dtypes, program
from torch_google.tpu.lowerings.platform_choice import NotOnTpu
from torch_google.tpu.program.guarded_sums import guard_sums
from torch_google.tpu.runtime import compiler


class Capture:
    """The programs that operators run on the `cpu` platform, captured and lowered for `platform`.

    A program that this process has already compiled is captured again, but not recompiled.
    """

    def __init__(self, store: Store, platform: str = "tpu") -> None:
        self._store = store
        self._platform = platform
        self._programs: dict[str, Program] = {}
        self._executables: dict[str, jax.stages.Compiled] = {}
        self._known: dict[str, Program] = {}
        self._traces: WeakKeyDictionary[jax.stages.Lowered, jax.stages.Traced]
        self._traces = WeakKeyDictionary()
        self._lower = jax.stages.Traced.lower
        self._compiled = compiler.compiled

    def take(self) -> tuple[Program, ...]:
        """Return the distinct programs that were captured since the last call to `take`."""
        programs = tuple(self._programs.values())
        self._programs.clear()
        return programs

    def add(self, name: str, traced: jax.stages.Traced) -> Program:
        """Lower a traced function for `platform`, store the program, and return its record."""
        lowered = self._lowered(name, traced)
        self._programs[lowered.digest or f"{name} {lowered.refusal}{lowered.error}"] = lowered
        return lowered

    @contextmanager
    def running(self) -> Iterator[None]:
        """Capture the programs of all threads until the block ends."""
        check = dtypes.check
        # PJRT's name for the `cuda` platform is `gpu`.
        platform = {"cuda": "gpu"}.get(self._platform, self._platform)
        with (
            mock.patch.object(jax.stages.Traced, "lower", self._recording_lower()),
            mock.patch.object(compiler, "compiled", self._compile),
            # Do not reorder matmuls, because only the `cpu` platform needs that.
            mock.patch.object(program, "reordered", return_value=None),
            mock.patch.object(dtypes, "check", lambda dtype, _: check(dtype, platform)),
        ):
            yield

    def _recording_lower(self) -> Callable[..., jax.stages.Lowered]:
        def lower(traced: jax.stages.Traced, **options: Any) -> jax.stages.Lowered:
            lowered = self._lower(traced, **options)
            self._traces[lowered] = traced
            return lowered

        return lower

    def _compile(
        self,
        name: str,
        lower: Callable[[], jax.stages.Lowered],
        *,
        fingerprint: str,
        **options: Any,
    ) -> jax.stages.Compiled:
        if fingerprint not in self._executables:

            def recorded() -> jax.stages.Lowered:
                lowered = lower()
                self._known[fingerprint] = self.add(name, self._traces[lowered])
                return lowered

            executable = self._compiled(name, recorded, fingerprint=fingerprint, **options)
            self._executables[fingerprint] = executable
        known = self._known[fingerprint]
        self._programs[known.digest or f"{name} {known.refusal}{known.error}"] = known
        return self._executables[fingerprint]

    def _lowered(self, name: str, traced: jax.stages.Traced) -> Program:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                lowered = self._lower(traced, lowering_platforms=(self._platform,))
            guard_sums(lowered)
            return Program(name, digest=self._store.put(lowered.as_text()))
        except NotOnTpu as refusal:
            return Program(name, refusal=_line(refusal))
        except Exception as error:  # noqa: BLE001 - any error of a lowering is an outcome
            return Program(name, error=f"{type(error).__name__}: {_line(error)}")


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300]
