# SPDX-License-Identifier: Apache-2.0
"""The command line of `python -m torch_google.tpu.estimate`."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from torch_google.tpu.estimate.estimation import estimate, fill_for_cpu
from torch_google.tpu.estimate.filling import FilledCache
from torch_google.tpu.estimate.page import page
from torch_google.tpu.estimate.report import Report

_DESCRIPTION = """\
Estimate what a model needs and takes on a TPU, without a TPU.

FUNCTION is package.module:function. It is called on the device `meta`, so it allocates nothing, and
returns one of these tuples:

  model, inputs                          estimates model(*inputs), without gradients
  model, loss, inputs                    estimates a training step with AdamW; loss(*inputs) is a scalar
  model, loss, inputs, optimizer         the same, with this optimizer

Any other option is an argument of the function: --batch=8 calls function(batch=8).
"""


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status: 1 for an error, 2 if the model does not fit."""
    parser = argparse.ArgumentParser(
        "python -m torch_google.tpu.estimate",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("function", metavar="FUNCTION")
    parser.add_argument("--topology", default="v5e", help="such as v5e:4x4; v5e is one chip")
    parser.add_argument("--mesh", default="", help="axes and sizes, such as data=4,model=4")
    parser.add_argument(
        "--shard",
        metavar="FUNCTION",
        help="called with a parameter's name and shape; returns the mesh axis of each dimension",
    )
    parser.add_argument(
        "--fill-cache",
        action="store_true",
        help="write the program to the compile cache (TORCH_TPU_COMPILE_CACHE), so that a job need "
        "not compile it. --topology=cpu fills it for the platform cpu, without an estimate",
    )
    parser.add_argument("--rows", type=int, default=12, help="rows of each table in the text")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the report as JSON")
    parser.add_argument("--html", metavar="FILE", type=Path, help="also write it as a page")
    options, rest = parser.parse_known_args(arguments)
    try:
        report = _estimate(options, _keywords(rest))
        if isinstance(report, FilledCache):
            print(report.text())
            return 0
    except (ValueError, RuntimeError, ImportError, AttributeError, NotImplementedError) as error:
        print(str(error), file=sys.stderr)
        return 1
    print(report.text(options.rows))
    if options.fill_cache and report.fits:
        print(f"Compile cache {torch.tpu.get_compile_cache()}: 1 program written")
    if options.json:
        _write(options.json, report.json())
    if options.html:
        _write(options.html, page(report, options.function))
    return 0 if report.fits else 2


def _estimate(options: argparse.Namespace, keywords: dict[str, Any]) -> Report | FilledCache:
    if options.topology == "cpu" and (not options.fill_cache or options.mesh or options.shard):
        raise ValueError(
            "estimate: --topology=cpu has no estimates and no mesh. Use it with --fill-cache alone"
        )
    function = _load(options.function)
    with torch.device("meta"):
        made = function(**keywords)
    if not isinstance(made, tuple) or not 2 <= len(made) <= 4:
        raise ValueError(
            f"estimate: {options.function} returned {type(made).__name__}. Return (model, inputs), "
            "(model, loss, inputs) or (model, loss, inputs, optimizer); see --help"
        )
    loss = made[1] if len(made) > 2 else None
    inputs = made[2] if len(made) > 2 else made[1]
    inputs = inputs if isinstance(inputs, tuple | list) else (inputs,)
    optimizer = made[3] if len(made) > 3 else None
    if options.topology == "cpu":
        return fill_for_cpu(made[0], inputs, loss=loss, optimizer=optimizer)
    return estimate(
        made[0],
        inputs,
        loss=loss,
        optimizer=optimizer,
        fill_cache=options.fill_cache,
        topology=options.topology,
        mesh=_mesh(options.mesh),
        shard=_load(options.shard) if options.shard else None,
    )


def _load(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    if not name:
        raise ValueError(f"estimate: {path!r} is no package.module:function")
    sys.path.insert(0, "")  # search the current directory, as `python -m` does
    try:
        found = importlib.import_module(module)
    finally:
        sys.path.remove("")
    if not hasattr(found, name):
        raise ValueError(f"estimate: {module} has no function {name!r}")
    function: Callable[..., Any] = getattr(found, name)
    return function


def _mesh(text: str) -> dict[str, int] | None:
    sizes: dict[str, int] = {}
    for part in text.split(",") if text else ():
        axis, _, size = part.partition("=")
        if not axis or not size.isdigit() or axis in sizes:
            raise ValueError(f"estimate: --mesh={text}: write axes as in data=4,model=4")
        sizes[axis] = int(size)
    return sizes or None


def _keywords(rest: Sequence[str]) -> dict[str, Any]:
    keywords: dict[str, Any] = {}
    for argument in rest:
        name, equals, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or not equals:
            raise ValueError(
                f"estimate: {argument}: write arguments of the function as --name=value"
            )
        keywords[name.replace("-", "_")] = _value(value)
    return keywords


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.partial")
    temporary.write_text(text)
    temporary.replace(path)
