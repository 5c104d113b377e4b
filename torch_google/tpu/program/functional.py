# SPDX-License-Identifier: Apache-2.0
"""The pure operator behind one that writes to its arguments: `add_` and `add.out` are `add`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import torch
from torch._ops import OpOverload, OpOverloadPacket


@dataclass(frozen=True)
class Functional:
    """How an operator is made of a pure one.

    `written`: the positions, in the schema of the operator itself, of the arguments that it writes.
    `values`: for each of these, the position of its new value in the results of `op`.
    `plain`: how many results are new tensors; these are the first results of `op`.
    `dropped`: the positions of arguments that `op` does not take: those of an out= variant.
    `takes_dtype`: `op` makes a tensor, and its `dtype` is the one of what the out= variant writes.
    """

    op: OpOverload
    written: tuple[int, ...]
    values: tuple[int, ...]
    plain: int
    dropped: tuple[int, ...]
    takes_dtype: bool = False


def functional_of(op: OpOverload) -> OpOverload:
    """Return the pure operator of an in-place or out= variant; a pure one is its own.

    Raises NotImplementedError where torch has no such operator.
    """
    return mutation(op).op


@cache
def mutation(op: OpOverload) -> Functional:
    """Return the pure operator, with what becomes of its results. Raises as functional_of does."""
    arguments = op._schema.arguments
    written = tuple(i for i, argument in enumerate(arguments) if argument.is_write)
    if not written:
        return Functional(op, (), (), len(op._schema.returns), ())
    outs = tuple(i for i in written if arguments[i].is_out)
    plain = sum(1 for r in op._schema.returns if r.alias_info is None)
    wanted = [_signature(a) for i, a in enumerate(arguments) if i not in outs]
    for candidate in _candidates(op):
        schema = candidate._schema
        if any(a.is_write for a in schema.arguments):
            continue
        given = [_signature(a) for a in schema.arguments]
        options = [a for a in given if a not in wanted and a[0] in _OPTIONS] if outs else []
        if [a for a in given if a not in options] != wanted:
            continue
        if len(schema.returns) == plain + len(written):
            values = tuple(range(plain, plain + len(written)))
            makes = any(name == "dtype" for name, _ in options)
            return Functional(candidate, written, values, plain, outs, makes)
    raise NotImplementedError(
        f"tpu: {op.name()} writes to its arguments, and torch has no pure operator for it. "
        "Name one in torch_google/tpu/program/functional.py"
    )


# What an out= variant does not ask: its result has them.
_OPTIONS = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format"})


def _candidates(op: OpOverload) -> Iterator[OpOverload]:
    namespace = getattr(torch.ops, op.namespace)
    base = op._schema.name.split("::")[1]
    stem = base.removesuffix("_")
    if base.startswith("__i"):
        stem = "__" + base.removeprefix("__i")  # __iand__ is __and__
    for name in dict.fromkeys((base, stem, stem + "_functional", base + "_functional", "_" + base)):
        packet = getattr(namespace, name, None)
        if isinstance(packet, OpOverloadPacket):
            # The overload of the same name first: several may have one signature.
            overloads = sorted(packet.overloads(), key=lambda o: o != op._overloadname)
            yield from (getattr(packet, overload) for overload in overloads)


def _signature(argument: torch.Argument) -> tuple[str, str]:
    return argument.name, str(argument.type)
