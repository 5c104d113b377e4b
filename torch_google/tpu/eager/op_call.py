# SPDX-License-Identifier: Apache-2.0
"""An operator call that passes through the stages in `miss.py`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch._ops import OpOverload

from torch_google.tpu.eager.normalized_call import Base, NormalizedCall

if TYPE_CHECKING:
    from torch_google.tpu.eager.compiled_op import CompiledOp
    from torch_google.tpu.program import LoweredProgram


@dataclass(frozen=True)
class OpCall:
    """A call that has no program yet. Each stage returns a copy with more fields set.

    `args` is in the order of the schema; `bases` describes the storage of each tensor in `args`.
    """

    op: OpOverload
    args: list[Any]
    bases: list[Base]
    device: int
    normalized: NormalizedCall | None = None
    lowered: LoweredProgram | None = None
    is_done: bool = False
    result: CompiledOp | list[Any] | None = None

    @property
    def call(self) -> NormalizedCall:
        """Return the normalized call, which the first stage has set."""
        assert self.normalized is not None
        return self.normalized

    def done(self, result: CompiledOp | list[Any] | None) -> OpCall:
        """Return a copy with the result set, so that the remaining stages are skipped.

        The result is a program, or a list of results that the host computed. None means that C++
        must look up the program again.
        """
        return replace(self, is_done=True, result=result)
