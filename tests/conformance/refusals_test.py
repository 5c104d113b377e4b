# SPDX-License-Identifier: Apache-2.0
"""Test that the device rejects op_db's error inputs, and every write that the CPU rejects."""

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

_ACCEPTED = "the CPU also accepts it; only other devices refuse it"
_OTHER_WORDS = "the CPU raises a different message, which the device repeats"

# The error inputs whose outcome differs from op_db's declaration, keyed by operator and position.
EXCEPTIONS = {
    ("__rmod__", 0): _ACCEPTED,
    ("__rpow__", 0): _ACCEPTED,
    ("__rsub__", 0): _ACCEPTED,
    ("clamp_max", 0): _ACCEPTED,
    ("clamp_min", 0): _ACCEPTED,
    (
        "masked_fill",
        2,
    ): "refused with a different message: the device does not check whether complex values fit",
    ("narrow_copy", 1): _OTHER_WORDS,
    ("narrow_copy", 6): _OTHER_WORDS,
}

REFUSING = [op for op in op_db if op.error_inputs_func is not None]


def refused_otherwise(op: OpInfo, error_input: ErrorInput) -> str | None:
    """Return a call's error, or "accepted" if it raises none.

    Return None if it raises the error that op_db declares.
    """
    sample = error_input.sample_input
    try:
        results = op(sample.input, *sample.args, **sample.kwargs)
        for result in pytree.tree_leaves(results):
            if isinstance(result, torch.Tensor):
                result.cpu()
    except Exception as error:  # noqa: BLE001 - errors of other types are returned
        declared = isinstance(error, error_input.error_type)
        if declared and re.search(error_input.error_regex, str(error)):
            return None
        return f"{type(error).__name__}: {error}"
    return "accepted"


def unexpected(op: OpInfo, inputs: Sequence[ErrorInput], known: set[int]) -> dict[int, str | None]:
    """Return the outcomes that EXCEPTIONS does not predict, keyed by the error input's position.

    `known` contains the positions at which a difference is expected.
    """
    outcomes = {position: refused_otherwise(op, each) for position, each in enumerate(inputs)}
    return {
        position: text
        for position, text in outcomes.items()
        if (text is not None) != (position in known)
    }


@pytest.mark.parametrize("op", REFUSING, ids=lambda op: op.full_name)
def test_errors_of_op_db(op: OpInfo) -> None:
    known = {position for name, position in EXCEPTIONS if name == op.name}
    assert not unexpected(op, list(op.error_inputs("tpu")), known)


def test_an_input_that_is_accepted_is_told() -> None:
    op = next(op for op in REFUSING if op.name == "add")
    fine = next(iter(op.sample_inputs("tpu", torch.float32)))
    taken = ErrorInput(fine, error_regex="")
    assert unexpected(op, [taken], set()) == {0: "accepted"}
    assert unexpected(op, [taken], {0}) == {}


def test_there_are_errors_to_raise() -> None:
    assert len(REFUSING) > 200


# For in-place writes, pairs of the target's dtype and the dtype of the other arguments.
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
    """Call a function and read its results. Return the error that this raises, or None."""
    try:
        for result in pytree.tree_leaves(call()):
            if isinstance(result, torch.Tensor):
                result.cpu()
    except Exception as error:  # noqa: BLE001 - the type is not compared: torch uses several
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
    """Return functions that write a result into a tensor of a different dtype, keyed by name.

    Each function takes the device as its argument.
    """
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
        expected, actual = (refusal(partial(call, device)) for device in ("cpu", "tpu"))
        if any(isinstance(error, NotImplementedError) for error in (expected, actual)):
            continue  # One of the devices does not implement the call.
        if (expected is None) != (actual is None):
            apart.append(f"{name}: the CPU: {expected}; the device: {actual}")
    assert not apart
