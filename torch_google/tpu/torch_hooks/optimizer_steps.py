# SPDX-License-Identifier: Apache-2.0
"""Keeps optimizers from loading Dynamo, which takes about a second.

torch.optim loads Dynamo to exclude optimizers from tracing. That is unnecessary until something
else loads Dynamo. When that happens, this module restores torch's own classes.
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
# Functions that torch would exclude from tracing by Dynamo, and step methods that it would wrap.
_untold: list[Any] = []
_steps: dict[type[Optimizer], Callable[..., Any]] = {}
_alone = False


def install() -> None:
    """Make optimizers bypass Dynamo until it is loaded. A no-op if it already is."""
    global _alone
    if _DYNAMO in sys.modules or _WATCH in sys.meta_path:
        return
    _alone = True
    for member in vars(Optimizer).values():
        if getattr(member, "__globals__", None) is vars(torch._compile):
            if member.__wrapped__ not in _untold:
                _untold.append(member.__wrapped__)
            # torch would load Dynamo to wrap the function, and cache the wrapped function in this
            # attribute. So set the attribute to the function itself.
            setattr(member.__wrapped__, _KEPT, member.__wrapped__)
    Optimizer._patch_step_function = _patch_step_alone
    sys.meta_path.insert(0, _WATCH)


def _end() -> None:
    """Restore torch's own classes before Dynamo inspects them."""
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
    """A meta path finder that detects the import of Dynamo, and never finds a module itself."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == _DYNAMO:
            _end()


def _patch_step_alone(self: Optimizer) -> None:
    kind = type(self)
    step: Any = kind.step
    # Replace the step function only if it has torch's wrapper, which only Dynamo needs.
    if getattr(step, "__globals__", None) is vars(optimizer) and step.__code__.co_name == _WRAPPER:
        _steps[kind] = step
        kind.step = _without(step)
    _patch_step(self)


def _without(step: Any) -> Callable[..., Any]:
    """Return a version of a step function that does not call Dynamo."""
    wrapped = step.__wrapped__

    @functools.wraps(step)
    def run(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if not _alone:  # the method was bound before Dynamo was loaded
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
