# SPDX-License-Identifier: Apache-2.0
"""One call of an operator on its way through the stages of `miss.py`."""

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
    """A call for which C++ has no program. Each stage returns it with what the stage has found out.

    `args` are in the order of the schema, `bases` the storages of the tensors among them.
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
        """Return the call in terms of the pure operator: there is one after the first stage."""
        assert self.normalized is not None
        return self.normalized

    def done(self, result: CompiledOp | list[Any] | None) -> OpCall:
        """Return the call with what C++ gets, which skips the stages that follow.

        A program, or the results if the host has made them, or None: look again.
        """
        return replace(self, is_done=True, result=result)
