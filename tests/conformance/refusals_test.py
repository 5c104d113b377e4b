# SPDX-License-Identifier: Apache-2.0
"""What op_db says that an operator refuses, and what the CPU refuses to write, the device refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import ErrorInput, OpInfo, SampleInput
from torch.utils import _pytree as pytree

from torch_google.tpu import autoload

autoload()

_ACCEPTED = "the CPU accepts it too: it is an input of another device"
_OTHER_WORDS = "the CPU has other words for it too, which the device repeats"

# Operators and positions of error inputs that tell something else.
EXCEPTIONS = {
    ("__rmod__", 0): _ACCEPTED,
    ("__rpow__", 0): _ACCEPTED,
    ("__rsub__", 0): _ACCEPTED,
    ("clamp_max", 0): _ACCEPTED,
    ("clamp_min", 0): _ACCEPTED,
    ("masked_fill", 2): "refused, in other words: whether a complex value fits is not looked at",
    ("narrow_copy", 1): _OTHER_WORDS,
    ("narrow_copy", 6): _OTHER_WORDS,
}

REFUSING = [op for op in op_db if op.error_inputs_func is not None]


def refused_otherwise(op: OpInfo, given: ErrorInput) -> str | None:
    """Say what happened where it was not the error that was to come."""
    sample = given.sample_input
    try:
        results = op(sample.input, *sample.args, **sample.kwargs)
        for result in pytree.tree_leaves(results):
            if isinstance(result, torch.Tensor):
                result.cpu()
    except Exception as error:  # noqa: BLE001 - another one than expected is what is looked for
        wanted = isinstance(error, given.error_type) and re.search(given.error_regex, str(error))
        return None if wanted else f"{type(error).__name__}: {error}"
    return "accepted"


def unexpected(op: OpInfo, inputs: Sequence[ErrorInput], known: set[int]) -> dict[int, str | None]:
    """Return what differs from what is known, for positions of inputs."""
    found = {at: refused_otherwise(op, given) for at, given in enumerate(inputs)}
    return {at: words for at, words in found.items() if (words is not None) != (at in known)}


@pytest.mark.parametrize("op", REFUSING, ids=lambda op: op.full_name)
def test_errors_of_op_db(op: OpInfo) -> None:
    known = {at for name, at in EXCEPTIONS if name == op.name}
    assert not unexpected(op, list(op.error_inputs("tpu")), known)


def test_an_input_that_is_accepted_is_told() -> None:
    op = next(op for op in REFUSING if op.name == "add")
    fine = next(iter(op.sample_inputs("tpu", torch.float32)))
    taken = ErrorInput(fine, error_regex="")
    assert unexpected(op, [taken], set()) == {0: "accepted"}
    assert unexpected(op, [taken], {0}) == {}


def test_there_are_errors_to_raise() -> None:
    assert len(REFUSING) > 200


# What tensors are written as, where torch would compute another dtype: (its own, that of the others).
WRITTEN = (
    (torch.int64, torch.float32),
    (torch.float32, torch.complex64),
    (torch.bool, torch.bool),
    (torch.bfloat16, torch.float32),
)
OUT = (torch.int64, torch.float64, torch.complex64)

WRITING = [
    op
    for op in op_db
    if torch.float32 in op.dtypes and (op.supports_out or op.inplace_variant is not None)
]


def refusal(call: Callable[[], Any]) -> Exception | None:
    """Return what a call raises."""
    try:
        for result in pytree.tree_leaves(call()):
            if isinstance(result, torch.Tensor):
                result.cpu()
    except Exception as error:  # noqa: BLE001 - which one is not compared: torch has several
        return error
    return None


def moved(value: Any, device: str, floats: torch.dtype | None = None) -> Any:
    def one(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        leaf = leaf.detach().to(device)
        return leaf.to(floats) if floats is not None and leaf.is_floating_point() else leaf

    return pytree.tree_map(one, value)


def writes(op: OpInfo, sample: SampleInput) -> dict[str, Callable[[str], Any]]:
    """Return calls that write what torch would compute as another dtype, for a device each."""
    calls: dict[str, Callable[[str], Any]] = {}
    target, rest = sample.input, (sample.args, sample.kwargs)
    expected = op(target, *sample.args, **sample.kwargs) if op.supports_out else None

    def into(shape: torch.Size, dtype: torch.dtype, device: str) -> Any:
        args, kwargs = moved(rest, device)
        out = torch.empty(shape, dtype=dtype, device=device)
        return op(moved(target, device), *args, out=out, **kwargs)

    def onto(own: torch.dtype, others: torch.dtype, device: str) -> Any:
        args, kwargs = moved(rest, device, others)
        return op.inplace_variant(target.detach().to(device, own), *args, **kwargs)

    if isinstance(expected, torch.Tensor):
        for dtype in OUT:
            if dtype != expected.dtype:
                calls[f"out {dtype}"] = partial(into, expected.shape, dtype)
    if op.inplace_variant and isinstance(target, torch.Tensor):
        for own, others in WRITTEN:
            calls[f"{own} with {others}"] = partial(onto, own, others)
    return calls


@pytest.mark.parametrize("op", WRITING, ids=lambda op: op.full_name)
def test_what_is_written_as_another_dtype(op: OpInfo) -> None:
    sample = next(iter(op.sample_inputs("cpu", torch.float32)))
    apart = []
    for name, call in writes(op, sample).items():
        theirs, ours = (refusal(partial(call, device)) for device in ("cpu", "tpu"))
        if any(isinstance(error, NotImplementedError) for error in (theirs, ours)):
            continue  # which is about a device, and not about the call
        if (theirs is None) != (ours is None):
            apart.append(f"{name}: the CPU: {theirs}; the device: {ours}")
    assert not apart
