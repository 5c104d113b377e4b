# SPDX-License-Identifier: Apache-2.0
"""The function that an operator call's program is compiled from."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax

from torch_google.tpu import dtypes, program
from torch_google.tpu.runtime import platform
from torch_google.tpu.runtime.precision import get_precision, lowering_at


class Body:
    """A function of arrays, with the specs of its inputs. It is traced on first use.

    Another thread may be the first to use it. The trace therefore uses the settings of the thread
    that created the body, as they were at that time.
    """

    def __init__(self, function: Callable[..., tuple[jax.Array, ...]], specs: list[Any], on: Any):
        self._function = function
        self._specs = specs
        self._on = on
        self._precision = get_precision()
        self._default = dtypes.default_dtype()

    @cached_property
    def traced(self) -> jax.stages.Traced:
        """Return the traced function."""
        with lowering_at(self._precision), dtypes.defaulting_to(self._default):
            traced = self._trace(self._function)
            quicker = program.reordered(traced.jaxpr) if platform.name() == "cpu" else None
            return traced if quicker is None else self._trace(quicker)

    @property
    def devices(self) -> list[jax.Device]:
        """Return the devices that the function runs on."""
        return list(self._on.device_set)

    def donating(self, position: int) -> jax.stages.Lowered:
        """Return the lowered function, which may overwrite the input at `position`."""
        function = program.fenced(self.traced.jaxpr)
        function.__name__ = self._function.__name__
        jitted = jax.jit(function, out_shardings=self._on, donate_argnums=position)
        return jitted.lower(*self._specs)

    def placed(self, on: Any) -> Body:
        """Return a body with the same function and the result shardings `on`."""
        body = copy.copy(self)
        body.__dict__.pop("traced", None)
        body._on = on
        return body

    def _trace(self, function: Callable[..., tuple[jax.Array, ...]]) -> jax.stages.Traced:
        return jax.jit(function, out_shardings=self._on).trace(*self._specs)
