# SPDX-License-Identifier: Apache-2.0
"""Test that programs on padded arrays give the same results as programs for exact sizes.

Here, every size of 2 or more counts as changing. So the samples of op_db, most of which have tiny
tensors, run with padding in all dimensions, and the storages of all tensors are lengthened. Two
samples of each operator are run, because each sample compiles many programs. The default run covers
some of the operators, and the full run covers all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from tests.conformance import samples, two_ways
from torch_google.tpu.eager import size_patterns
from torch_google.tpu.eager.size_patterns import CallSizes, SizeHistory, SizePattern

# The default run covers about this many operators.
_PARTS = 41
# Sizes above this are positions such as the end of an open slice.
_POSITION = 2**31


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


@pytest.mark.parametrize(("name", "dtype"), two_ways.selected(_PARTS), ids=str)
def test_padding_does_not_affect_results(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size_patterns.SizeHistory, "pattern", _everything_changes)
    two_ways.compare(name, dtype, _choose, count=2, full_count=2, storage_sizes=False)


def test_most_operators_run_on_padded_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_patterns.SizeHistory, "pattern", _everything_changes)
    torch.tpu.reset_metrics()
    for name in ("add", "mm", "softmax", "sum", "cat", "index_select", "nn.functional.gelu"):
        op = samples.operators()[name]
        selected, _ = samples.pick(op, torch.float32, 3, few=3, gradients=False)
        before = torch.tpu.metrics().padded.get("sizes", 0)
        for sample in selected:
            _choose(True)
            two_ways.results(op, sample)
        assert torch.tpu.metrics().padded.get("sizes", 0) > before, name


def _choose(padded: bool) -> None:
    from torch_google.tpu import _C

    _C.clear_programs()  # A call that has a program is not padded.
    torch.tpu.set_size_buckets(padded)
