# SPDX-License-Identifier: Apache-2.0
"""Handles operator calls for which the C++ recorder has no program yet.

C++ calls `miss`, which passes the call through STAGES until one of them returns a result. If the
result is a CompiledOp, C++ caches it for all calls with the same key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax
import torch
from torch._ops import OpOverload
from torch.nn.parameter import UninitializedTensorMixin
from torch.utils import _pytree as pytree

from torch_google.tpu import _C, program
from torch_google.tpu.eager import (
    changing_calls,
    changing_sizes,
    fallback,
    host_shapes,
    moving_views,
    overlap,
    strided_scatter,
)
from torch_google.tpu.eager.compiled_op import (
    CompiledOp,
    compile_call,
    fingerprint_of,
    keep_baked,
    kept_call,
)
from torch_google.tpu.eager.normalized_call import Base, NormalizedCall, as_a_kernel
from torch_google.tpu.eager.op_call import OpCall
from torch_google.tpu.eager.recorded_operators import scalars_are_inputs
from torch_google.tpu.program import BakedNumber, Number, refusals
from torch_google.tpu.runtime import interruptions, size_bucket_setting
from torch_google.tpu.runtime.cache_miss import CacheMissError
from torch_google.tpu.shardings import MeshMismatch


def miss(
    op: OpOverload, args: list[Any], bases: list[Base], device: int
) -> CompiledOp | list[Any] | None:
    """Return a call's program, or its results if the call has already run on the host.

    None means that C++ must look up the program again. A Number in `args` is a Python number that
    will be an input of the program. Raises NotImplementedError if the operator has no lowering and
    fallback is off. Also raises torch's own errors for invalid arguments, and compilation errors.
    """
    with as_a_kernel():
        # Parameters of lazy modules have no shape, so replace them with their data.
        args = pytree.tree_map_only(UninitializedTensorMixin, lambda lazy: lazy.data, args)
        if scalars_are_inputs(op, args):
            _C.set_scalars_are_inputs(op.name(), True)
            return None
        try:
            return _through_stages(OpCall(op, args, bases, device))
        except refusals.Refusal as refusal:
            raise refusal.error from None
        except BakedNumber:
            scalars_are_inputs(op, (), forget=True)
            _C.set_scalars_are_inputs(op.name(), False)
        except NotImplementedError as error:
            if not _C.fallback():
                raise fallback.refusal(op, args, error) from error
            return fallback.run(op, args)
        except overlap.Overlap as refusal:
            raise RuntimeError(str(refusal)) from None
        except (
            CacheMissError,
            MeshMismatch,
            torch.OutOfMemoryError,
            jax.errors.JaxRuntimeError,
        ):
            raise  # the arguments are not the cause, so do not try the call on the CPU
        except (RuntimeError, IndexError, ValueError, TypeError, AssertionError):
            # Prefer the CPU's messages, which users know, to those of meta kernels.
            try:
                refusals.raise_cpu_error(op, args)
            except refusals.Refusal as refusal:
                raise refusal.error from None
            raise
        return None


def _through_stages(call: OpCall) -> CompiledOp | list[Any] | None:
    for stage in STAGES:
        call = stage(call)
        if call.is_done:
            break
    return call.result


def normalize(call: OpCall) -> OpCall:
    """Rewrite the call with the out-of-place operator. Replace masks with positions if needed."""
    if host_shapes.has_mask(call.op, call.args):
        return call.done([host_shapes.by_positions(call.op, call.args)])
    return replace(call, normalized=NormalizedCall(call.op, call.args, call.bases))


def check(call: OpCall) -> OpCall:
    """Check for overlapping tensors and invalid scalars.

    A call may have either even if its program is in the compile cache.
    """
    normalized = call.call
    storages = [base[2] for base in call.bases]
    overlap.check(call.op, normalized.views, storages, normalized.written())
    if refusals.looks_at_values(call.op, call.args):
        refusals.check(call.op, call.args)
    return call


def run_padded(call: OpCall) -> OpCall:
    """Find or compile a program on padded arrays if the call's sizes keep changing.

    The decision is made before the compile cache is read, so that cached programs do not affect it.
    """
    if call.op in _host_shaped or not size_bucket_setting.get_size_buckets():
        return call
    changing = changing_calls.note(call.call)
    if changing is None:
        return call
    from torch_google.tpu.eager import padded_op  # imported late, because it loads torch's tracers

    if padded_op.OPS.refusal(changing) is not None:
        return call
    lowered = lower(check_uncached(call))
    if lowered.is_done:
        return lowered
    assert lowered.lowered is not None
    try:
        with interruptions.delayed():
            found = padded_op.OPS.find(call.call, changing, lowered.lowered, call.device)
    except padded_op.StoragePadded:
        return call.done(None)
    return call if found is None else call.done(found)


def find_cached(call: OpCall) -> OpCall:
    """Look up the call's program in the compile cache."""
    if call.op in _host_shaped:
        return call
    cached = kept_call(call.call, call.device)
    if cached is None:
        return call
    moving_views.note(call.op, call.call, lambda: _unplaced(call))
    return call.done(cached)


def check_uncached(call: OpCall) -> OpCall:
    """Reject calls that the CPU rejects. Calls with a cached program skip this stage."""
    if not refusals.looks_at_values(call.op, call.args):
        refusals.check(call.op, call.args)
    call.call.check()
    return call


def run_moving(call: OpCall) -> OpCall:
    """Run a call on copies of its views if their offsets keep changing."""
    if call.op in _host_shaped:
        return call
    results = moving_views.run(call.op, call.call, lambda: _unplaced(call))
    return call if results is None else call.done(results)


def _unplaced(call: OpCall) -> str:
    return fingerprint_of(call.call, placed=False)


def run_strided_scatter(call: OpCall) -> OpCall:
    """Run a scatter into a strided view on a copy of the view's storage, to keep its strides."""
    results = strided_scatter.run(call.op, call.call)
    return call if results is None else call.done(results)


def lower(call: OpCall) -> OpCall:
    """Lower the operator, or run it now if its shapes depend on values. Resize out= arguments."""
    normalized = call.call
    with interruptions.delayed(), _noting_baked_numbers(call):
        lowered = program.lower_op(normalized.pure.op, *normalized.pure_arguments())
        if lowered.host_shape:
            _host_shaped.add(call.op)
            return call.done(host_shapes.run(lowered, normalized))
        refusals.check_written(call.op, call.args, normalized.written_as(lowered))
        resized = normalized.resized_inputs(lowered)
        if resized:
            itself = normalized.writes_input(resized)
            overlap.check_resized(normalized.pure.op, itself=itself)
            return call.done(normalized.of_copies(resized))
        if normalized.resize(lowered):
            return call.done(None)
    return replace(call, lowered=lowered)


def compile_program(call: OpCall) -> OpCall:
    """Compile the program ahead of time and store it in the compile cache."""
    assert call.lowered is not None
    changing_sizes.SIZES.note(call.call)
    with interruptions.delayed(), _noting_baked_numbers(call):
        return call.done(compile_call(call.call, call.lowered, call.device))


STAGES: tuple[Callable[[OpCall], OpCall], ...] = (
    normalize,
    check,
    run_strided_scatter,
    run_padded,
    find_cached,
    check_uncached,
    run_moving,
    lower,
    compile_program,
)


@contextmanager
def _noting_baked_numbers(call: OpCall) -> Iterator[None]:
    """Raise BakedNumber if a program depends on a number's value. Note this in the cache."""
    try:
        yield
    except BakedNumber:
        keep_baked(call.call, call.device)
        raise
    except _NEEDS_VALUES as error:
        if not any(isinstance(leaf, Number) for leaf in pytree.tree_leaves(call.args)):
            raise
        keep_baked(call.call, call.device)
        raise BakedNumber(str(error)) from error


# Errors that JAX raises if a lowering needs a number's value.
_NEEDS_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)

# Operators whose result shapes depend on values. They have no program, so they skip the caches.
_host_shaped: set[OpOverload] = set()
