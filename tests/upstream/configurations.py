# SPDX-License-Identifier: Apache-2.0
"""The rows to test from torch's common_nn, which has tables of modules, losses and functions.

These tables are older than module_db.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal import common_nn
from torch.testing._internal.common_modules import FunctionInput
from torch.testing._internal.common_utils import set_default_dtype
from torch.utils import _pytree as pytree

from tests.upstream import modules
from tests.upstream.row import Result, Row, Table, judge

_DTYPES = (torch.float32, torch.float64)


def rows() -> list[Row]:
    """Return a row for every configuration in float32 and in float64."""
    return [
        Row(Table.CONFIGURATIONS, name, dtype, "train" if entry["train"] else "eval")
        for dtype in _DTYPES
        for name, entry in _TABLE.items()
    ]


def run(row: Row, *, samples: int) -> Result:
    """Test a row's configuration in the same way as modules.py. It has only one sample."""
    named = (("sample 0", _sample(row)) for _ in range(min(samples, 1)))
    return judge(row, named, expected=modules.expected_run, compare=modules.check)


@dataclass(frozen=True)
class _Info:
    """The attributes of torch's ModuleInfo that `modules.Sample` reads."""

    module_cls: Callable[..., torch.nn.Module]
    is_lazy: bool = False
    module_memformat_affects_out: bool = False


def _table() -> dict[str, dict[str, Any]]:
    """Map a unique name to each entry of common_nn's tables.

    Entries that torch skips on GPUs are random in training mode, so they run in eval mode.
    """
    table: dict[str, dict[str, Any]] = {}
    of_modules = [*common_nn.module_tests, *common_nn.get_new_module_tests()]
    for kind, entries in (
        (common_nn.NewModuleTest, of_modules),
        (common_nn.CriterionTest, common_nn.criterion_tests),
    ):
        for entry in entries:
            options = {key: value for key, value in entry.items() if key != "module_name"}
            options.setdefault("constructor", getattr(torch.nn, entry.get("module_name", ""), None))
            name = entry.get("fullname") or f"{entry['module_name']}_{entry.get('desc', '')}"
            name = name.rstrip("_").replace(" ", "_")
            if name in table:
                raise ValueError(
                    f"common_nn: two entries are called '{name}'. Give them different names"
                )
            table[name] = {"kind": kind, "given": options, "train": entry.get("test_cuda", True)}
    return table


def _sample(row: Row) -> modules.Sample:
    entry = _TABLE[row.name]
    torch.manual_seed(0)
    with set_default_dtype(entry["given"].get("default_dtype") or torch.float32):
        case = entry["kind"](**entry["given"])
        inputs = _arguments(case._get_input())
        if entry["kind"] is common_nn.CriterionTest:
            inputs = (*inputs, *_arguments(case._get_target()), *case.extra_args)
    called = pytree.tree_map_only(torch.Tensor, lambda leaf: _as(leaf, row.dtype), inputs)
    constructed = FunctionInput(*case.constructor_args)
    info = _Info(case.constructor)
    return modules.Sample(info, entry["train"], row.dtype, constructed, FunctionInput(*called))


def _arguments(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _as(leaf: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if leaf.is_complex():
        dtype = dtype.to_complex()
    elif not leaf.is_floating_point():
        return leaf
    return leaf.detach().to(dtype).requires_grad_(leaf.requires_grad)


_TABLE = _table()
