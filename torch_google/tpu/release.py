# SPDX-License-Identifier: Apache-2.0
"""Differences between torch's releases: v2.6 (the static build's), v2.13 (the default) and v2.15.

The TPU backend is written for the default release. Python replacements for features that v2.6 lacks
are here, in runtime/accelerator.py, in compile/aot_uncached.py and in the table of
compile/control_flow.py. C++ replacements are in csrc/torch_release.h.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar, cast

import torch
from torch._C._dynamo import eval_frame

_F = TypeVar("_F", bound=Callable[..., Any])

V2_6 = torch.__version__ < (2, 7)
V2_15 = torch.__version__ >= (2, 15)


def has_operator(name: str) -> bool:
    """Return whether this release of torch has an operator, given its full name."""
    return torch._C._dispatch_has_kernel(name)


def override(library: torch.library.Library, name: str, kernel: Callable[..., Any]) -> None:
    """Replace a kernel that torch itself registered from Python for the library's dispatch key."""
    if V2_6:
        # v2.6 rejects a second kernel for a name in this set, so remove the name. The dispatcher
        # then uses the kernel that was registered last.
        torch.library._impls.discard(f"{library.ns}/{name}/{library.dispatch_key}")
        library.impl(name, kernel)
    else:
        library.impl(name, kernel, allow_override=True)
    # torch also stores its own kernel in the operator object. The Python dispatcher, which traces
    # graphs, prefers that kernel to the one in the C++ dispatcher, so remove it.
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(getattr(torch.ops, library.ns), packet), overload or "default")
    if operator.py_kernels.pop(getattr(torch._C.DispatchKey, library.dispatch_key), None):
        operator._dispatch_cache.clear()
    if library.dispatch_key == "Meta":
        # Import lazily, because this module loads all decompositions.
        from torch._decomp import meta_table

        # Fake tensors use an operator's decomposition instead of its kernel unless the operator is
        # in this table.
        meta_table[operator] = kernel


def recompile_limits(limit: int) -> dict[str, int]:
    """Return the options of torch._dynamo.config that set both recompilation limits."""
    name = "cache_size_limit" if V2_6 else "recompile_limit"
    return {name: limit, f"accumulated_{name}": limit}


def compiler_arguments(*arguments: Any) -> tuple[Any, ...]:
    """Return the arguments that torch.compile's wrapper accepts: in v2.6, only the first three."""
    return arguments[:3] if V2_6 else arguments


def prepare_symbols() -> None:
    """Import the modules that symbolic shapes need.

    In v2.6, importing them needs torch function overrides, which are disabled inside an operator.
    """
    if V2_6:
        with torch._C._EnableTorchFunction():
            import_module("torch._dynamo")


def skipped(function: _F) -> _F:
    """Make Dynamo skip a function and its callees. Return the function or a wrapper around it."""
    if V2_6:
        return cast(_F, _without_dynamo(function))
    skip = eval_frame._FrameAction.SKIP
    eval_frame.set_code_exec_strategy(function.__code__, eval_frame._FrameExecStrategy(skip, skip))
    return function


def _without_dynamo(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper that disables Dynamo during the call, because v2.6 cannot skip callees."""

    def call(*args: Any, **kwargs: Any) -> Any:
        before = eval_frame.set_eval_frame(None)
        try:
            return function(*args, **kwargs)
        finally:
            eval_frame.set_eval_frame(before)

    eval_frame.skip_code(call.__code__)
    return call
