# SPDX-License-Identifier: Apache-2.0
"""Adds torch's operators, modules and source lines to the kernels in a trace."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from torch_google.tpu.profiler.origins import Origin, Recording, of_graphs
from torch_google.tpu.profiler.xplane import Kernel, name_kernels
from torch_google.tpu.runtime import kernel_names


def name_operators(perfetto: Path, xplane: Path, recording: Recording) -> None:
    """Name the kernels in both files of a trace.

    Prefix each kernel of a program with several operators with the operators that it computes.

    `multiply_add_fusion.2` becomes `mul.Tensor, add.Tensor: multiply_add_fusion.2`. The arguments
    of the kernel's event also list the operators, and the modules and source lines that called
    them.
    """
    with gzip.open(perfetto, "rt") as file:
        trace: dict[str, Any] = json.load(file)
    kernels: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in trace.get("traceEvents", ()):
        if {"hlo_module", "hlo_op"} <= (event.get("args") or {}).keys():
            kernels[event["args"]["hlo_module"]].append(event)
    names = kernel_names.of_modules(kernels.keys())
    named: dict[Kernel, tuple[str, dict[str, str]]] = {}
    for module, kernel_operators in names.items():
        events = kernels[module]
        graphs = of_graphs(module) if kernel_names.is_compiled(module) else None
        all_runs = recording.runs(module, events) if graphs is None else [()] * len(events)
        for event, runs in zip(events, all_runs, strict=True):
            operators = kernel_operators.get(event["args"]["hlo_op"], ())
            if operators:
                if graphs is None:
                    origins = [[recording.origin(r, o.position) for o in operators] for r in runs]
                else:
                    origins = [[graph[o.position] for o in operators] for graph in graphs]
                arguments = _arguments(operators, origins)
                event["args"] |= arguments
                event["name"] = f"{arguments['operators']}: {event['name']}"
                run = event["args"].get("run_id")
                kernel = (module, event["args"]["hlo_op"], None if run is None else str(run))
                named[kernel] = (event["name"], arguments)
    if not names:
        return
    partial = perfetto.with_name(f"{perfetto.name}.partial")
    with gzip.open(partial, "wt") as file:
        json.dump(trace, file)
    partial.replace(perfetto)
    name_kernels(xplane, named)


def _arguments(
    operators: Iterable[kernel_names.Operator], origins: Iterable[Sequence[Origin]]
) -> dict[str, str]:
    """Return the arguments to add to a kernel's event.

    `origins` has one entry for each run of a fused program, or each graph of torch.compile, to
    which the kernel may belong. The modules are omitted if they differ between the entries, and so
    are the source lines.
    """
    arguments = {"operators": _joined(operator.name for operator in operators)}
    for name, texts in {
        "modules": {_joined(origin.module for origin in run) for run in origins},
        "sources": {_joined(origin.line for origin in run) for run in origins},
    }.items():
        if len(texts) == 1 and (text := texts.pop()):
            arguments[name] = text
    return arguments


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, texts)))
