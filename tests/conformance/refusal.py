# SPDX-License-Identifier: Apache-2.0
"""Run the `refused` check: the device must reject every sample that the CPU rejects.

The device's error must have the same type as the CPU's.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.conformance.rows import Outcome, Row, add
from tests.conformance.samples import Sample, placed


def attempt(op: Any, picked: Sequence[Sample], row: Row) -> Iterator[list[Row]]:
    """Run the samples. Yield the row before the first sample and after each one.

    Only samples that the CPU rejects count.
    """
    yield [row]
    for sample in picked:
        expected = error_of(op, sample, "cpu")
        if expected is None:
            row = replace(row, taken=row.taken + 1)
        else:
            actual = error_of(op, sample, "tpu")
            good = type(actual) is type(expected)
            message = f"{_described(actual)}, expected {_described(expected)}"
            row = add(row, Outcome.PASSED if good else Outcome.WRONG, sample.index, message)
        yield [row]


def error_of(op: Any, sample: Sample, device: str) -> Exception | None:
    """Call an operator and read its results. Return the error that this raises, or None."""
    args, kwargs = placed(op, sample, device)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            for leaf in pytree.tree_leaves(op.op(*args, **kwargs)):
                if isinstance(leaf, torch.Tensor):
                    leaf.cpu()
    except Exception as error:  # noqa: BLE001 - any error is the result of the call
        return error
    return None


def _described(error: Exception | None) -> str:
    if error is None:
        return "accepted"
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"[:150]
