# SPDX-License-Identifier: Apache-2.0
"""Test that programs on padded arrays give the same results as programs for exact sizes.

Here, every size of 2 or more counts as changing. So the samples of op_db, most of which have tiny
tensors, run with padding in all dimensions, and the storages of all tensors are lengthened. The
default run covers some of the operators, and the full run covers all of them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.conformance import samples, verify
from tests.conformance.tolerances import tolerance
from tools.par.testing import budget
from torch_google.tpu.eager import size_patterns
from torch_google.tpu.eager.size_patterns import CallSizes, SizeHistory, SizePattern

# The default run covers about this many operators, evenly spaced in the sorted list.
_PARTS = 41
_DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64)
# Sizes above this are positions such as the end of an open slice.
_POSITION = 2**31


def _selected() -> list[tuple[str, torch.dtype]]:
    names = sorted(samples.operators())
    if budget.is_full():
        return [(name, dtype) for name in names for dtype in _DTYPES]
    return [(name, torch.float32) for name in names[:: len(names) // _PARTS]]


@pytest.fixture(scope="module", autouse=True)
def _device() -> Iterator[None]:
    from torch_google.tpu import autoload
    from torch_google.tpu.testing import quick_compiler

    quick_compiler.use()
    os.environ.setdefault("TORCH_TPU_PLATFORM", "cpu")
    autoload()
    torch.tpu.init()
    yield
    torch.tpu.set_size_buckets(None)


def _everything_changes(_: SizeHistory, call: CallSizes, round_: object) -> SizePattern | None:
    """Return a pattern in which equal sizes are one symbol. Replaces SizeHistory.pattern."""
    groups: dict[int, list[tuple[int, int]]] = {}
    for position, size in enumerate(call.values):
        if 2 <= size < _POSITION:
            groups.setdefault(size, []).append((position, 1))
    changing = {position for group in groups.values() for position, _ in group}
    if not changing:
        return None
    tensors = frozenset(call.owners[position] for position in changing) - {-1}
    return SizePattern(
        tuple(tuple(group) for group in groups.values()),
        tensors,
        tuple((p, size) for p, size in enumerate(call.values) if p not in changing),
        tuple((t, layout) for t, layout in enumerate(call.layouts) if t not in tensors),
        storages={tensor: {(1,), (2,)} for tensor in tensors},
    )


@pytest.mark.parametrize(("name", "dtype"), _selected(), ids=str)
def test_padding_does_not_affect_results(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    op = samples.operators()[name]
    if dtype not in op.dtypes:
        return  # op_db declares no samples of this dtype.
    monkeypatch.setattr(size_patterns.SizeHistory, "pattern", _everything_changes)
    selected, _ = samples.pick(op, dtype, None if budget.is_full() else 2, few=2, gradients=False)
    allowed = tolerance(op, dtype, "forward")
    for sample in selected:
        padded, exact = (_results(op, sample, enabled) for enabled in (True, False))
        where = f"{name} {dtype} sample {sample.index}"
        if isinstance(padded, str) or isinstance(exact, str):
            assert padded == exact, where
            continue
        assert _layouts(padded) == _layouts(exact), where
        one, other = (pytree.tree_map(_host, results) for results in (padded, exact))
        close = verify.closeness(allowed, lambda: None)
        assert not verify.differs(one, other, close), where


def test_most_operators_run_on_padded_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_patterns.SizeHistory, "pattern", _everything_changes)
    torch.tpu.reset_metrics()
    for name in ("add", "mm", "softmax", "sum", "cat", "index_select", "nn.functional.gelu"):
        op = samples.operators()[name]
        selected, _ = samples.pick(op, torch.float32, 3, few=3, gradients=False)
        before = torch.tpu.metrics().padded.get("sizes", 0)
        for sample in selected:
            _results(op, sample, True)
        assert torch.tpu.metrics().padded.get("sizes", 0) > before, name


def _results(op: Any, sample: samples.Sample, enabled: bool) -> list[Any] | str:
    from torch_google.tpu import _C

    _C.clear_programs()  # A call that has a program is not padded.
    torch.tpu.set_size_buckets(enabled)
    torch.tpu.manual_seed(0)
    args, kwargs = samples.placed(op, sample, "tpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            results = op.op(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - both ways must raise the same error
            return f"{type(error).__name__}: {error}"
    # Also return the arguments, because some operators write to them.
    tensors = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)]
    return list(pytree.tree_leaves((results, tensors)))


def _layouts(results: list[Any]) -> list[Any]:
    return [
        (leaf.dtype, leaf.shape, leaf.stride(), leaf.storage_offset())
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided
        else type(leaf)
        for leaf in results
    ]


def _host(leaf: Any) -> Any:
    return leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf
