# SPDX-License-Identifier: Apache-2.0
"""Test that torch's CPU kernels and compiled programs give the same results on the device.

The other tests in this directory compare only the results of compiled programs with the CPU's. The
samples come from op_db. The default run covers some of the operators, and the full run covers all
of them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.conformance import samples, verify
from tests.conformance.tolerances import tolerance
from tools.par.testing import budget

# The default run covers about this many operators, evenly spaced in the sorted list.
_PARTS = 31
_DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64)


def _selected() -> list[tuple[str, torch.dtype]]:
    names = sorted(samples.operators())
    if budget.is_full():
        return [(name, dtype) for name in names for dtype in _DTYPES]
    return [(name, torch.float32) for name in names[:: len(names) // _PARTS]]


@pytest.fixture(scope="module", autouse=True)
def _device() -> None:
    from torch_google.tpu import autoload
    from torch_google.tpu.testing import quick_compiler

    quick_compiler.use()
    os.environ.setdefault("TORCH_TPU_PLATFORM", "cpu")
    autoload()
    torch.tpu.init()


@pytest.mark.parametrize(("name", "dtype"), _selected(), ids=str)
def test_both_ways_agree(name: str, dtype: torch.dtype) -> None:
    op = samples.operators()[name]
    if dtype not in op.dtypes:
        return  # op_db declares no samples of this dtype.
    selected, _ = samples.pick(op, dtype, None if budget.is_full() else 1, few=2, gradients=False)
    allowed = tolerance(op, dtype, "forward")
    for sample in selected:
        mine, compiled = (_results(op, sample, enabled) for enabled in (True, False))
        where = f"{name} {dtype} sample {sample.index}"
        if isinstance(mine, str) or isinstance(compiled, str):
            assert mine == compiled, where
            continue
        assert _layouts(mine) == _layouts(compiled), where
        one, other = (pytree.tree_map(_host, results) for results in (mine, compiled))
        close = verify.closeness(allowed, lambda: None)
        assert not verify.differs(one, other, close), where


def _results(op: Any, sample: samples.Sample, enabled: bool) -> list[Any] | str:
    torch.tpu.set_cpu_kernels(enabled)
    torch.tpu.manual_seed(0)
    args, kwargs = samples.placed(op, sample, "tpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return list(pytree.tree_leaves(_call(op.op, args, kwargs)))
        except Exception as error:  # noqa: BLE001 - both ways must raise the same error
            return f"{type(error).__name__}: {error}"


def _call(function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    results = function(*args, **kwargs)
    # Also return the arguments, because some operators write to them.
    return results, [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)]


def _layouts(results: list[Any]) -> list[Any]:
    return [
        (
            leaf.dtype,
            leaf.shape,
            leaf.stride(),
            leaf.storage_offset(),
            leaf.untyped_storage().size(),
        )
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided
        else type(leaf)
        for leaf in results
    ]


def _host(leaf: Any) -> Any:
    return leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf
