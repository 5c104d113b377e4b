# SPDX-License-Identifier: Apache-2.0
"""Hides this package's functions from Dynamo, because they are not part of the user's code."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from torch_google.tpu.release import skipped

_F = TypeVar("_F", bound=Callable[..., Any])


def untraced(function: _F) -> _F:
    """Return a version of a function that makes Dynamo skip it and everything it calls.

    Otherwise, if compiled code called an operator after a graph break, Dynamo would trace the
    frames of this package and of JAX.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"tpu: {function!r} has no code for Dynamo to skip. Give a def or a lambda")
    return skipped(function)
