# SPDX-License-Identifier: Apache-2.0
"""Compares two ways in which the device can run the samples of op_db."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.conformance import samples, trial, verify
from tests.conformance.tolerances import tolerance
from tools.par.testing import budget

_DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64)


def selected(parts: int) -> list[tuple[str, torch.dtype]]:
    """Return the operators and dtypes to test.

    The default run has about `parts` operators, evenly spaced in the sorted list, in float32. The
    full run has all of them, in all dtypes.
    """
    names = sorted(samples.operators())
    if budget.is_full():
        return [(name, dtype) for name in names for dtype in _DTYPES]
    return [(name, torch.float32) for name in names[:: len(names) // parts]]


def compare(
    name: str,
    dtype: torch.dtype,
    choose: Callable[[bool], None],
    *,
    count: int,
    full_count: int,
    storage_sizes: bool,
) -> None:
    """Run an operator's samples both ways, and assert that results and errors agree.

    `choose(True)` and `choose(False)` select one of the two ways. The default run has at most
    `count` samples, the full run at most `full_count`. If `storage_sizes` is set, the storages of
    results must have equal sizes.
    """
    op = samples.operators()[name]
    if dtype not in op.dtypes:
        return  # op_db declares no samples of this dtype.
    number = full_count if budget.is_full() else count
    picked, _ = samples.pick(op, dtype, number, few=2, gradients=False)
    allowed = tolerance(op, dtype, "forward")
    for sample in picked:
        both = []
        for way in (True, False):
            choose(way)
            both.append(results(op, sample))
        where = f"{name} {dtype} sample {sample.index}"
        if any(isinstance(each, str) for each in both):
            assert both[0] == both[1], where
            continue
        first, second = (_layouts(each, storage_sizes) for each in both)
        assert first == second, where
        one, other = (pytree.tree_map(_host, each) for each in both)
        close = verify.closeness(allowed, cache(partial(trial.exact, op, "forward", sample)))
        # Either way may have the larger rounding errors, so compare in both directions.
        difference = verify.differs(one, other, close) and verify.differs(other, one, close)
        assert not difference, f"{where}: {difference}"


def results(op: Any, sample: samples.Sample) -> list[Any] | str:
    """Return an operator's results for a sample and its tensor arguments, or its error."""
    torch.tpu.manual_seed(0)
    args, kwargs = samples.placed(op, sample, "tpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            returned = op.op(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - both ways must raise the same error
            return f"{type(error).__name__}: {error}"
    # Also return the arguments, because some operators write to them.
    tensors = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)]
    return list(pytree.tree_leaves((returned, tensors)))


def _layouts(values: Any, storage_sizes: bool) -> list[Any]:
    return [
        (
            leaf.dtype,
            leaf.shape,
            leaf.stride(),
            leaf.storage_offset(),
            leaf.untyped_storage().size() if storage_sizes else None,
        )
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided
        else type(leaf)
        for leaf in values
    ]


def _host(leaf: Any) -> Any:
    return leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf
