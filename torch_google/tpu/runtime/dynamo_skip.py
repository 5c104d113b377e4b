# SPDX-License-Identifier: Apache-2.0
"""Functions of ours that run within an operator: no part of the user's code, so not for Dynamo."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from torch_google.tpu.release import skipped

_F = TypeVar("_F", bound=Callable[..., Any])


def untraced(function: _F) -> _F:
    """Let Dynamo see neither a function nor what it calls. Returns the function to call.

    Where compiled code calls an operator after a graph break, Dynamo would trace the frames behind
    it: those that make its program, and JAX's.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"tpu: {function!r} has no code for Dynamo to skip. Give a def or a lambda")
    return skipped(function)
