# SPDX-License-Identifier: Apache-2.0
"""What happens when an operator is called in a way for which there is no program yet.

C++ calls `miss` with the operator's arguments in the order of its schema, where a Number is a Python
number that will be an input. It remembers the Compiled that comes back for all calls of this kind.
"""

from __future__ import annotations

from typing import Any

import jax
import torch
from torch._ops import OpOverload
from torch.nn.parameter import UninitializedTensorMixin
from torch.utils import _pytree as pytree

from torch_google.tpu import _C, program
from torch_google.tpu.eager import fallback, host_shapes, moving, overlap
from torch_google.tpu.eager.call import Base, Call, as_a_kernel
from torch_google.tpu.eager.executable import (
    Compiled,
    compile_call,
    fingerprint_of,
    keep_baked,
    kept_call,
)
from torch_google.tpu.eager.operators import takes_numbers
from torch_google.tpu.program import BakedNumber, Number, refusals
from torch_google.tpu.runtime.misses import CacheMissError


def miss(
    op: OpOverload, args: list[Any], bases: list[Base], device: int
) -> Compiled | list[Any] | None:
    """Return a program, or the results where the host made them, or None: look again.

    Raises NotImplementedError for an operator that has neither, what torch's own kernels raise for
    wrong arguments, and what is said of a program that may not or cannot be compiled.
    """
    with as_a_kernel():
        # A lazy module's parameters have memory, and no shape to ask for.
        args = pytree.tree_map_only(UninitializedTensorMixin, lambda lazy: lazy.data, args)
        if takes_numbers(op, args):
            _C.set_lift(op.name(), True)
            return None
        try:
            return _miss(op, args, bases, device)
        except refusals.Refusal as refusal:
            raise refusal.error from None
        except BakedNumber:
            takes_numbers(op, (), forget=True)
            _C.set_lift(op.name(), False)
        except NotImplementedError as error:
            if not _C.fallback():
                raise fallback.refusal(op, args, error) from error
            return fallback.run(op, args)
        except overlap.Overlap as refusal:
            raise RuntimeError(str(refusal)) from None
        except (CacheMissError, torch.OutOfMemoryError, jax.errors.JaxRuntimeError):
            raise  # nothing about the arguments, as what zeros lead to on the CPU would be
        except (RuntimeError, IndexError, ValueError, TypeError, AssertionError):
            # The kernels for meta tensors have words of their own: the CPU's are the known ones.
            try:
                refusals.raise_cpu_error(op, args)
            except refusals.Refusal as refusal:
                raise refusal.error from None
            raise
        return None


def _miss(
    op: OpOverload, args: list[Any], bases: list[Base], device: int
) -> Compiled | list[Any] | None:
    if host_shapes.has_mask(op, args):
        return [host_shapes.by_positions(op, args)]
    call = Call(op, args, bases)
    overlap.check(op, call.views, [base[2] for base in bases], call.written())
    by_values = refusals.looks_at_values(op, args)
    if by_values:
        refusals.check(op, args)
    if op not in _host_shaped:
        # What the cache has, passed the other checks when it was made.
        found = kept_call(call, device)
        if found is not None:
            return found
    if not by_values:
        refusals.check(op, args)
    call.check()
    if op not in _host_shaped:
        moved = moving.run(op, call, lambda: fingerprint_of(call, device, placed=False))
        if moved is not None:
            return moved
    try:
        lowered = program.lower_op(call.pure.op, *call.pure_arguments())
        if lowered.host_shape:
            _host_shaped.add(op)
            return host_shapes.run(lowered, call)
        refusals.check_written(op, args, call.written_as(lowered))
        resized = call.resized_inputs(lowered)
        if resized:
            overlap.check_resized(call.pure.op, itself=call.writes_input(resized))
            return call.of_copies(resized)
        if call.resize(lowered):
            return None
        return compile_call(call, lowered, device)
    except BakedNumber:
        keep_baked(call, device)
        raise
    except _NEEDS_VALUES as error:
        if not any(isinstance(leaf, Number) for leaf in pytree.tree_leaves(args)):
            raise
        keep_baked(call, device)
        raise BakedNumber(str(error)) from error


# What a lowering raises that asks for the value of a number.
_NEEDS_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)

# Operators without a program of their own: none is looked for.
_host_shaped: set[OpOverload] = set()
