# SPDX-License-Identifier: Apache-2.0
"""An operator call as it passes through the stages in `miss.py`."""

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
    """A call without a program. Each stage returns it with what that stage has determined.

    `args` is in schema order; `bases` lists the storages of the tensors among them.
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
        """Return the normalized call, which the first stage sets."""
        assert self.normalized is not None
        return self.normalized

    def done(self, result: CompiledOp | list[Any] | None) -> OpCall:
        """Return the call with its result, which skips the remaining stages.

        The result is a program, the results if the host computed them, or None to look it up again.
        """
        return replace(self, is_done=True, result=result)
