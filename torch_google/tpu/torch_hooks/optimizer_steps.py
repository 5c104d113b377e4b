# SPDX-License-Identifier: Apache-2.0
"""Optimizers that step without Dynamo, as long as nobody has loaded it.

torch.optim loads Dynamo, for about a second, to tell it to leave optimizers alone. Where it is not
there, there is nothing to tell. The first import of Dynamo, whosever it is, finds the classes as torch
has made them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer, optimizer

_DYNAMO = "torch._dynamo"
_patch_step = Optimizer._patch_step_function
# The functions that torch would ask Dynamo to leave alone, and the steps that it would.
_untold: list[Any] = []
_steps: dict[type[Optimizer], Callable[..., Any]] = {}
_alone = False


def install() -> None:
    """Let optimizers do without Dynamo from now on; nothing changes where it is loaded."""
    global _alone
    if _DYNAMO in sys.modules or _WATCH in sys.meta_path:
        return
    _alone = True
    for member in vars(Optimizer).values():
        if getattr(member, "__globals__", None) is vars(torch._compile):
            if member.__wrapped__ not in _untold:
                _untold.append(member.__wrapped__)
            # Where torch keeps what Dynamo makes of the function.
            setattr(member.__wrapped__, _KEPT, member.__wrapped__)
    Optimizer._patch_step_function = _patch_step_alone
    sys.meta_path.insert(0, _WATCH)


def _end() -> None:
    """Leave all as torch has made it: Dynamo looks at it next."""
    global _alone
    _alone = False
    sys.meta_path.remove(_WATCH)
    Optimizer._patch_step_function = _patch_step
    for function in _untold:
        delattr(function, _KEPT)
    for kind, step in _steps.items():
        hooked: Any = kind.profile_hook_step(step)
        hooked.hooked = True
        kind.step = hooked
    _untold.clear()
    _steps.clear()


class _Watch:
    """Finds no module; it is asked first."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == _DYNAMO:
            _end()


def _patch_step_alone(self: Optimizer) -> None:
    kind = type(self)
    step: Any = kind.step
    # The wrapper that torch puts around steps for the sake of Dynamo.
    if getattr(step, "__globals__", None) is vars(optimizer) and step.__code__.co_name == _WRAPPER:
        _steps[kind] = step
        kind.step = _without(step)
    _patch_step(self)


def _without(step: Any) -> Callable[..., Any]:
    """Return what a step does, but for what it says to Dynamo."""
    wrapped = step.__wrapped__

    @functools.wraps(step)
    def run(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if not _alone:  # a bound method from before
            return step(self, *args, **kwargs)
        before = torch.is_grad_enabled()
        try:
            torch.set_grad_enabled(self.defaults["differentiable"])
            return wrapped(self, *args, **kwargs)
        finally:
            torch.set_grad_enabled(before)

    return run


_KEPT = "__dynamo_disable"
_WRAPPER = "_use_grad"
_WATCH: Any = _Watch()
