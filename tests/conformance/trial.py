# SPDX-License-Identifier: Apache-2.0
"""Run one check of one operator in one dtype: compare results on tpu with those on the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.conformance import distribution, observe, refusal, samples, verify
from tests.conformance.observe import Place, Seen
from tests.conformance.rows import WHOLE, Outcome, Row, add
from tests.conformance.samples import Sample
from tests.conformance.tolerances import REFERRED, tolerance
from torch_google.tpu.runtime import platform

_CPU = Place("cpu")
_TPU = Place("tpu")

Found = tuple[Outcome, str]


def applies(op: Any, dtype: torch.dtype, check: str) -> bool:
    """Return whether a check applies to an operator in a dtype.

    `refused` applies if op_db has samples that can be cast to the dtype. Any other check applies if
    it exists for the dtype, and if op_db declares that the operator supports the dtype and the
    feature under test (such as `out=`) on the CPU.
    """
    if check == "refused":
        return samples.source_of(op, dtype) is not None
    kind = str(dtype).removeprefix("torch.")
    if dtype not in op.dtypes or (kind not in WHOLE and check not in ("forward", "strides")):
        return False
    if check in ("fused", "permuted"):
        return dtype == torch.float32
    if check == "backward":
        return bool(op.supports_autograd) and dtype in op.supported_backward_dtypes("cpu")
    if check == "out":
        return bool(op.supports_out)
    if check == "inplace":
        return op.inplace_variant is not None
    return check in ("forward", "strides")


def few(dtype: str, check: str) -> int:
    """Return the number of samples that gate_test.py runs.

    The number is small, because compiling a sample takes 0.05 s.
    """
    if check in ("fused", "refused"):
        return 1 if check == "fused" else 3
    return (5 if check in ("forward", "strides", "permuted") else 2) if dtype == "float32" else 1


def attempt(op: Any, dtype: torch.dtype, check: str, count: int | None) -> Iterator[list[Row]]:
    """Run `count` samples (all if None). Yield a list of rows at the start and after each sample.

    The list contains the row of the check. For `forward`, it also contains the row of `strides`.
    """
    kind = str(dtype).removeprefix("torch.")
    if check == "refused":
        picked = samples.first(op, dtype, count)
        yield from refusal.attempt(
            op, picked, Row(samples.name(op), kind, check, Outcome.EMPTY, total=len(picked))
        )
        return
    checks = ("forward", "strides") if check == "forward" else (check,)
    picked, total = samples.pick(
        op, dtype, count, few=few(kind, check), gradients=check == "backward"
    )
    rows = [Row(samples.name(op), kind, name, Outcome.EMPTY, total=total) for name in checks]
    yield rows
    for sample in picked:
        expected = _expected(op, check, sample)
        result = None if expected is None else _one(op, dtype, check, sample, expected)
        rows = [
            replace(row, taken=row.taken + 1)
            if result is None
            else add(row, result[row.check][0], sample.index, result[row.check][1])
            for row in rows
        ]
        yield rows


def _one(
    op: Any, dtype: torch.dtype, check: str, sample: Sample, expected: Seen
) -> dict[str, Found]:
    look = partial(_look, op, check, sample)
    try:
        got = look(_TPU)
        values = _values(op, dtype, check, sample, got, expected, look)
    except NotImplementedError as refused:
        return dict.fromkeys(("forward", "strides", check), (Outcome.UNSUPPORTED, _line(refused)))
    except Exception as error:  # noqa: BLE001 - any error is the result of the call
        message = f"{type(error).__name__}: {_line(error)}"
        return dict.fromkeys(("forward", "strides", check), (Outcome.CRASHED, message))
    facts = _first_other(got.facts, expected.facts) or values
    layouts = _first_other(got.layouts, expected.layouts)
    return {
        "strides": (Outcome.WRONG, layouts) if layouts else (Outcome.PASSED, ""),
        check: (Outcome.WRONG, facts) if facts else (Outcome.PASSED, ""),
    }


def _values(
    op: Any,
    dtype: torch.dtype,
    check: str,
    sample: Sample,
    got: Seen,
    expected: Seen,
    look: Callable[[Place], Seen],
) -> str:
    if op.name in _UNDEFINED:
        return verify.differs(got.values, expected.values, None)
    allowed = tolerance(
        op, dtype, check, platform=platform.name(), precision=torch.tpu.get_precision()
    )
    if check in ("forward", "fused", "out", "permuted"):
        difference = _rebuilt(op, sample, got, expected, allowed)
        if difference is not None:
            return difference
    if expected.random:
        return _distributed(check, sample, got, expected, look)
    close = verify.closeness(allowed, cache(lambda: exact(op, check, sample)))
    difference = verify.differs(got.values, expected.values, close)
    if difference and expected.own:
        return verify.differs(got.values, expected.own, close) and difference
    if difference and check == "backward":
        sums = verify.tied(op.name, sample, got.values, expected.values, allowed)
        return difference if sums is None else sums
    return difference


def _rebuilt(op: Any, sample: Sample, got: Seen, expected: Seen, allowed: Any) -> str | None:
    """Check the results of each call with `verify.rebuilt`.

    Return the first error, or "" if they are correct. Return None if the operator cannot be checked
    this way.
    """
    width = expected.parts or max(len(expected.values), 1)
    for start in range(0, max(len(expected.values), 1), width):
        part = slice(start, start + width)
        difference = verify.rebuilt(
            op.name, sample, got.values[part], expected.values[part], allowed
        )
        if difference is None or difference:
            return difference
    return ""


def _distributed(
    check: str, sample: Sample, got: Seen, expected: Seen, look: Callable[[Place], Seen]
) -> str:
    if difference := verify.differs(got.values, expected.values, None):
        return difference

    def draw(place: Place) -> list[Any]:
        observation = look(place)
        return (
            pytree.tree_leaves(sample.finish(observation.result))
            if check != "backward"
            else observation.values
        )

    seeds = range(distribution.RUNS)
    actual = [draw(replace(_TPU, seed=seed)) for seed in seeds]
    reference = [draw(replace(_CPU, seed=seed + len(seeds))) for seed in seeds]
    for leaf, value in enumerate(reference[0]):
        if isinstance(value, torch.Tensor) and (
            difference := distribution.differs(
                [leaves[leaf] for leaves in actual], [leaves[leaf] for leaves in reference]
            )
        ):
            return difference
    return ""


def _look(op: Any, check: str, sample: Sample, place: Place) -> Seen:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if check == "out":
            template = observe.forward(op, sample, replace(_CPU, wider=place.wider))
            return observe.out(op, sample, place, template)
        function: observe.Observer = getattr(observe, check)
        return function(op, sample, place)


def _expected(op: Any, check: str, sample: Sample) -> Seen | None:
    """Return the results on the CPU, or None if the CPU rejects the sample."""
    try:
        observation = _look(op, check, sample, _CPU)
        if check == "out" and not observation.random:
            # Some CPU kernels write wrong values to out=, so compare with the results of a call
            # without out=. Also accept the values that the CPU wrote to out=, because torch
            # composes some out= variants from other operators on every device.
            observation.own = observation.values
            values = _look(op, "forward", sample, _CPU).values
            observation.values = values * (len(observation.values) // max(len(values), 1))
        return observation
    except Exception:  # noqa: BLE001 - after any error, there is no result to compare with
        return None


def exact(op: Any, check: str, sample: Sample) -> list[Any] | None:
    """Return the CPU's results in double precision. Return None if they are random or an error."""
    try:
        seen = _look(op, check, sample, replace(_CPU, wider=True))
        if seen.random:
            return None
        values = seen.values
        if samples.name(op) in REFERRED and check in ("forward", "fused", "out", "permuted"):
            values = [torch.as_tensor(op.ref(sample.args[0].double().numpy()))] * len(values)
        return values
    except Exception:  # noqa: BLE001 - the operator may not take these dtypes
        return None


def _first_other(actual: list[str], expected: list[str]) -> str:
    for position, (one, other) in enumerate(zip(actual, expected, strict=False)):
        if one != other:
            return f"result {position}: {one}, expected {other}"
    return (
        "" if len(actual) == len(expected) else f"{len(actual)} results, expected {len(expected)}"
    )


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return lines[0][:300]


# Operators that return uninitialized memory, so only the shapes and dtypes of their results are
# compared.
_UNDEFINED = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
)
