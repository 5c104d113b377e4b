# SPDX-License-Identifier: Apache-2.0
"""Maps operators that mutate their arguments to pure ones: `add_` and `add.out` become `add`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket


@dataclass(frozen=True)
class FunctionalForm:
    """The functional form of an operator: how the pure operator `op` corresponds to `source`.

    `written`: the positions, in `source`'s schema, of the arguments that `source` mutates.
    `values`: for each of these arguments, the position of its new value in the results of `op`.
    `plain`: the number of results that are new tensors; they are the first results of `op`.
    `dropped`: the positions of arguments that `op` lacks, such as an out= variant's `out`.
    `takes_dtype`: whether to pass the mutated tensor's dtype if the caller passes no `dtype`.
    """

    source: OpOverload
    op: OpOverload
    written: tuple[int, ...]
    values: tuple[int, ...]
    plain: int
    dropped: tuple[int, ...]
    takes_dtype: bool = False

    def arguments(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Convert arguments for `source` to arguments for `op`."""
        by_name = self._named(args, kwargs)
        if self.takes_dtype and by_name.get("dtype") is None:
            by_name["dtype"] = self.targets(args, kwargs)[0].dtype
        for i in self.dropped:
            del by_name[self.source._schema.arguments[i].name]
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for i, argument in enumerate(self.op._schema.arguments):
            if argument.name in by_name and len(positional) == i and not argument.kwarg_only:
                positional.append(by_name[argument.name])
            elif argument.name in by_name:
                named[argument.name] = by_name[argument.name]
        return positional, named

    def targets(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the arguments that `source` mutates: tensors, or lists of tensors."""
        by_name = self._named(args, kwargs)
        return [by_name[self.source._schema.arguments[i].name] for i in self.written]

    def _named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        arguments = self.source._schema.arguments
        by_name = {a.name: a.default_value for a in arguments if a.has_default_value()}
        return by_name | dict(zip((a.name for a in arguments), args, strict=False)) | dict(kwargs)


def functional_of(op: OpOverload) -> OpOverload:
    """Return the pure variant of an in-place or out= operator. A pure operator is its own variant.

    Raises NotImplementedError if torch has no pure variant of `op`.
    """
    return mutation(op).op


@cache
def mutation(op: OpOverload) -> FunctionalForm:
    """Return the functional form of an operator.

    Raises NotImplementedError if torch has no pure variant of `op`.
    """
    arguments = op._schema.arguments
    if op.name() in _UNDECLARED:
        pure, hidden = _UNDECLARED[op.name()]
        plain = len(op._schema.returns)
        values = tuple(range(plain, plain + len(hidden)))
        return FunctionalForm(
            op, getattr(torch.ops.torch_google, pure).default, hidden, values, plain, ()
        )
    written = tuple(i for i, argument in enumerate(arguments) if argument.is_write)
    if not written:
        return FunctionalForm(op, op, (), (), len(op._schema.returns), ())
    outs = tuple(i for i in written if arguments[i].is_out)
    # A pure operator returns the values for out= arguments before those for other mutated
    # arguments.
    written = outs + tuple(i for i in written if i not in outs)
    plain = sum(1 for r in op._schema.returns if r.alias_info is None)
    inputs = [_signature(a) for i, a in enumerate(arguments) if i not in outs]
    for candidate in _candidates(op):
        schema = candidate._schema
        if any(a.is_write for a in schema.arguments):
            continue
        signatures = [_signature(a) for a in schema.arguments]
        options = [a for a in signatures if a not in inputs and a[0] in _OPTIONS] if outs else []
        if [a for a in signatures if a not in options] != inputs:
            continue
        if len(schema.returns) == plain + len(written):
            values = tuple(range(plain, plain + len(written)))
            makes = any(name == "dtype" for name, _ in options)
            casts = op._schema.name.removesuffix("_") in _CASTING
            return FunctionalForm(op, candidate, written, values, plain, outs, makes or casts)
    raise NotImplementedError(
        f"tpu: {op.name()} writes to its arguments, and torch has no pure operator for it. "
        "Name one in torch_google/tpu/program/functional_form.py"
    )


def declared() -> dict[OpOverload, Callable[..., Any]]:
    """Map operators with undeclared mutations to functions that mutate arguments with `copy_`."""
    packets = [getattr(torch.ops.aten, name.removeprefix("aten::")) for name in _UNDECLARED]
    return {packet.default: partial(_in_the_open, packet.default) for packet in packets}


def _in_the_open(op: OpOverload, *args: Any) -> tuple[Any, ...]:
    plan = mutation(op)
    results = plan.op(*args)
    for target, position in zip(plan.targets(args, {}), plan.values, strict=True):
        if target is not None:
            target.copy_(results[position])
    return tuple(results[: plan.plain])


# Operators that mutate arguments without declaring it in their schema. Each is mapped to our pure
# operator and the positions of those arguments. In a call, any of these arguments may be None.
_UNDECLARED = {"aten::native_batch_norm": ("native_batch_norm_functional", (3, 4))}


# Reductions and scans that first cast each element to the destination tensor's dtype.
_CASTING = frozenset(
    f"aten::{name}" for name in ("cumprod", "cumsum", "mean", "nansum", "prod", "sum")
)

# Options that an out= variant lacks, because its `out` determines them.
_OPTIONS = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format"})


def _candidates(op: OpOverload) -> Iterator[OpOverload]:
    namespace = getattr(torch.ops, op.namespace)
    base = op._schema.name.split("::")[1]
    stem = base.removesuffix("_")
    if base.startswith("__i"):
        stem = "__" + base.removeprefix("__i")  # for example, __iand__ becomes __and__
    for name in dict.fromkeys((base, stem, stem + "_functional", base + "_functional", "_" + base)):
        packet = getattr(namespace, name, None)
        if isinstance(packet, OpOverloadPacket):
            # Try the overload of the same name first: other overloads may have the same signature.
            overloads = sorted(packet.overloads(), key=lambda o: o != op._overloadname)
            yield from (getattr(packet, overload) for overload in overloads)


def _signature(argument: torch.Argument) -> tuple[str, str]:
    return argument.name, str(argument.type)
