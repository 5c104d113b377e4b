# SPDX-License-Identifier: Apache-2.0
"""Functions that are computed differently on a TPU, or rejected there.

The choice is made when a program is lowered, so a program that was traced on a machine without a
TPU can be lowered for one. `jax.lax.platform_dependent` traces all alternatives. `choose`, in
contrast, traces the TPU version only when it lowers a program for a TPU, so other platforms do not
pay for it. A program that uses these functions can be lowered for only one platform at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
from jax._src.sharding_impls import ShardingContext, SPMDAxisContext
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, JaxprEqn, Primitive, jaxpr_as_fun
from jax.interpreters import batching, mlir

from torch_google.tpu.lowerings import partitioned_call
from torch_google.tpu.lowerings.replay import replaying

Function = Callable[..., Any]

_choice_p = Primitive("tpu_platform_choice")
_choice_p.multiple_results = True


def choose(
    *arrays: jax.Array,
    tpu: Function,
    default: Function,
    x64: bool = True,
    one_device: bool = False,
    on_mesh: Function | None = None,
) -> Any:
    """Return `tpu(*arrays)` on a TPU and `default(*arrays)` on other platforms.

    Both functions must return the same dtypes, take only arrays, and close over no traced value. If
    `x64` is False, `tpu` is traced and lowered with jax_enable_x64 off. `tpu` may raise
    NotImplementedError. If `one_device` is True, programs that XLA partitions across devices use
    `on_mesh` on a TPU, or `default` if it is None, because XLA cannot partition Pallas kernels.
    """
    program, results = jax.make_jaxpr(default, return_shape=True)(*arrays)
    if any(isinstance(const, jax.core.Tracer) for const in program.consts):
        raise TypeError(
            f"choose: {default} closes over a traced value. Pass that value to `choose` as an array"
        )

    def flat(*values: jax.Array) -> list[jax.Array]:
        return jax.tree.leaves(tpu(*values))

    def flat_on_mesh(*values: jax.Array) -> list[jax.Array]:
        return jax.tree.leaves(on_mesh(*values)) if on_mesh is not None else []

    values = _choice_p.bind(
        *arrays,
        default=program,
        tpu=flat,
        x64=x64,
        one_device=one_device,
        on_mesh=None if on_mesh is None else flat_on_mesh,
    )
    return jax.tree.unflatten(jax.tree.structure(results), values)


class NotOnTpu(NotImplementedError):
    """Raised if a program that is lowered for a TPU contains an operator that TPUs do not support.

    The message lists the operator, the dtype and the alternatives.
    """


def refuse_on_tpu(
    function: Function, *arrays: jax.Array, name: str, reason: str, only_64_bits: bool = False
) -> Any:
    """Return `function(*arrays)`, or raise NotOnTpu if the program is lowered for a TPU.

    The error refers to the operator as `name`, and includes the dtype of the first array. If
    `only_64_bits` is True, a TPU rejects only float64 and complex128.
    """
    dtype = arrays[0].dtype
    if only_64_bits and not has_64_bits(arrays[0]):
        return function(*arrays)

    def refuse(*_: jax.Array) -> NoReturn:
        raise NotOnTpu(
            f"tpu: a TPU has no {name} of {dtype}: {reason}. To run it on the CPU, outside of "
            "compiled graphs: with torch.tpu.cpu_fallback()"
        )

    return choose(*arrays, tpu=refuse, default=function)


def has_64_bits(x: jax.Array) -> bool:
    """Return whether an array is float64 or complex128."""
    return bool(jnp.issubdtype(x.dtype, jnp.inexact) and jnp.finfo(x.dtype).bits == 64)


def without_choices(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program with each call of `choose` replaced by its `default` function."""
    if all(eqn.primitive is not _choice_p for eqn in program.jaxpr.eqns):
        return program

    def replace(eqn: JaxprEqn, operands: list[Any]) -> Sequence[Any] | None:
        if eqn.primitive is not _choice_p:
            return None
        return jaxpr_as_fun(eqn.params["default"])(*operands)

    return jax.make_jaxpr(replaying(program, replace))(
        *(
            jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
            for aval in program.in_avals
        )
    )


@_choice_p.def_abstract_eval
def _abstract(*_: Any, default: ClosedJaxpr, **__: Any) -> list[ShapedArray]:
    return list(default.out_avals)


@_choice_p.def_impl
def _run(*arrays: Any, **params: Any) -> list[jax.Array]:
    return jax.jit(lambda *xs: _choice_p.bind(*xs, **params))(*arrays)


def _lower(ctx: Any, *operands: Any, default: ClosedJaxpr, **_: Any) -> Any:
    return mlir.lower_fun(jaxpr_as_fun(default), multiple_results=True)(ctx, *operands)


def _lower_for_tpu(
    ctx: Any,
    *operands: Any,
    default: ClosedJaxpr,
    tpu: Function,
    x64: bool,
    one_device: bool,
    on_mesh: Function | None,
) -> Any:
    context = ctx.module_context.axis_context
    function: Function | None = tpu
    if one_device and _is_partitioned(context):
        function = on_mesh if partitioned_call.can_lower(context) else None
    if function is None:
        return _lower(ctx, *operands, default=default)
    with jax.enable_x64(x64):
        return mlir.lower_fun(function, multiple_results=True)(ctx, *operands)


def _is_partitioned(context: Any) -> bool:
    """Return whether XLA partitions the operators that are lowered in this context."""
    if isinstance(context, SPMDAxisContext):
        return frozenset(context.mesh.axis_names) != context.manual_axes
    return isinstance(context, ShardingContext) and context.num_devices != 1


mlir.register_lowering(_choice_p, _lower)
mlir.register_lowering(_choice_p, _lower_for_tpu, platform="tpu")


def _batch(
    arrays: Sequence[jax.Array],
    axes: Sequence[Any],
    *,
    default: ClosedJaxpr,
    tpu: Function,
    x64: bool,
    one_device: bool,
    on_mesh: Function | None,
) -> tuple[list[jax.Array], list[int]]:
    # Calls of `on_mesh` cannot be batched, so a program over a mesh uses the default.
    values = choose(
        *arrays,
        tpu=jax.vmap(tpu, in_axes=tuple(axes)),
        default=jax.vmap(jaxpr_as_fun(default), in_axes=tuple(axes)),
        x64=x64,
        one_device=one_device,
    )
    return values, [0] * len(values)


batching.primitive_batchers[_choice_p] = _batch
