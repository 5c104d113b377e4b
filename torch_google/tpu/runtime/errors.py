# SPDX-License-Identifier: Apache-2.0
"""Reports a program's errors with the name of the operator and the line that called it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NoReturn

import torch
from torch.autograd.graph import _engine_run_backward

from torch_google.tpu import _C

# The prefix of the error messages from csrc/host_group.cpp and csrc/collective.cpp.
_COLLECTIVE = "tpu: torch.distributed: "
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'^  File "(.*)", line (\d+)', re.MULTILINE)
# Each path ends with a separator, so that torch's path is not a prefix of torchvision's.
_ROOTS = tuple(
    f"{root}{os.sep}" for root in (Path(torch.__file__).parent, Path(__file__).parents[2])
)


def explain(op: str, error: Exception) -> NoReturn:
    """Raise a program's error, as torch.OutOfMemoryError if the device ran out of memory."""
    if isinstance(error, torch.OutOfMemoryError):
        raise error
    if is_out_of_memory(error):
        raise out_of_memory(op, first_line(error).rstrip(".")) from error
    raise _of_collective(error) or error


def _of_collective(error: Exception) -> Exception | None:
    """Convert a collective's error to torch.distributed's exception. Return None for any other."""
    code, _, text = str(error).partition(_COLLECTIVE)
    if not text:
        return None
    error_types = {"INVALID_ARGUMENT": ValueError, "FAILED_PRECONDITION": TypeError}
    kind = error_types.get(code.partition(":")[0], torch.distributed.DistBackendError)
    return kind(_COLLECTIVE + text)


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error means that PJRT ran out of memory.

    Some of PJRT's messages lack the status code.
    """
    return any(phrase in str(error) for phrase in ("RESOURCE_EXHAUSTED", "Out of memory"))


def wait(array: Any) -> None:
    """Wait until a value is ready. If its computation failed, raise the error as `explain` does."""
    try:
        array.block_until_ready()
    except RuntimeError as error:  # JAX's errors are subclasses of RuntimeError
        explain("the program that computes a value", error)


def out_of_memory(name: str, why: str) -> torch.OutOfMemoryError:
    """Return an out-of-memory error whose message includes the device's memory usage."""
    usage = _C.memory_usage(_C.current_device())
    return torch.OutOfMemoryError(f"tpu: {name} ran out of memory: {why}. {usage}")


def first_line(error: Exception) -> str:
    """Return the first line of an error's message.

    If the message is a formatted traceback, return the line with the exception instead.
    """
    first, _, rest = str(error).strip().partition("\n")
    if first.endswith(_TRACEBACK):
        raised = [line for line in rest.splitlines() if line and not line.startswith((" ", "\t"))]
        return first.removesuffix(_TRACEBACK) + (raised[0] if raised else "")
    return first or type(error).__name__


def caller() -> str:
    """Return `file:line` of the innermost frame that is neither in torch nor in this package.

    On an autograd thread, return the line that called backward() and the name of the running node.
    In anomaly mode, also return the line that created the node. If several threads are in
    backward(), return all of their lines: this thread may be working for any of them.
    """
    own = _users_line(sys._getframe(1))
    if own is not None:
        return own
    waiting = {line for frame in sys._current_frames().values() if (line := _backward_line(frame))}
    return " or ".join(sorted(waiting) or ["unknown"]) + _node()


def users_level() -> int:
    """Return the `stacklevel` that makes the caller's warning point at the user's line of code."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and not is_users(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    return level


def frame_kind(code: CodeType) -> int:
    """Return 1 for user code, 2 for the function that runs autograd, and 0 for library code.

    C++ uses the numbers to find the line of an operator (`../csrc/origin.h`).
    """
    if code is _engine_run_backward.__code__:
        return 2
    return int(is_users(code.co_filename))


def _users_line(frame: FrameType | None) -> str | None:
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def _backward_line(frame: FrameType | None) -> str | None:
    """Return the line that called backward() or grad(), or None if the thread is in neither."""
    while frame is not None:
        if frame.f_code is _engine_run_backward.__code__:
            return _users_line(frame)
        frame = frame.f_back
    return None


def _node() -> str:
    node = torch._C._current_autograd_node()
    if node is None:
        return ""
    # In anomaly mode, the metadata contains the stack that created the node, innermost frame last.
    text = "".join(node.metadata.get("traceback_", ()))
    lines = [f"{file}:{line}" for file, line in _FRAME.findall(text) if is_users(file)]
    return f" (backward of {node.name()}{', made at ' + lines[-1] if lines else ''})"


def is_users(file: str) -> bool:
    """Return whether a file is neither in torch nor in this package, or is a test."""
    return not file.startswith(_ROOTS) or file.endswith("_test.py")
