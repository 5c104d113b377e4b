# SPDX-License-Identifier: Apache-2.0
"""Adds the names of torch's operators to the kernels in a Perfetto trace."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from torch_google.tpu.runtime import kernel_names


def name_operators(perfetto: Path) -> None:
    """Prefix each kernel of a fused program with the operators that it computes.

    `multiply_add_fusion.2` becomes `mul.Tensor, add.Tensor: multiply_add_fusion.2`. The kernel's
    arguments have the operators as well.
    """
    with gzip.open(perfetto, "rt") as file:
        trace: dict[str, Any] = json.load(file)
    kernels = [
        (event, event["args"]["hlo_module"], event["args"]["hlo_op"])
        for event in trace.get("traceEvents", ())
        if {"hlo_module", "hlo_op"} <= (event.get("args") or {}).keys()
    ]
    names = kernel_names.of_modules({module for _, module, _ in kernels})
    changed = False
    for event, module, kernel in kernels:
        operators = ", ".join(names.get(module, {}).get(kernel, ()))
        if operators:
            event["args"]["operators"] = operators
            event["name"] = f"{operators}: {event['name']}"
            changed = True
    if not changed:
        return
    partial = perfetto.with_name(f"{perfetto.name}.partial")
    with gzip.open(partial, "wt") as file:
        json.dump(trace, file)
    partial.replace(perfetto)
