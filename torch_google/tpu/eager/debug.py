# SPDX-License-Identifier: Apache-2.0
"""Debug mode, which checks input values before each program and waits for the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_google.tpu.eager import check_program
from torch_google.tpu.runtime import errors
from torch_google.tpu.runtime.cache_miss import CacheMissError


def debug(op: str, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Run a program and wait for its results. Errors include the user's source line.

    The operator's checks run first. If they find an error, such as an index out of range, it is
    raised and the program does not run.
    """
    try:
        wrong = check_program.error_of(function, arguments)
        results = () if wrong else function(*arguments)
        for result in results:
            result.block_until_ready()
    except (RuntimeError, ValueError, TypeError) as error:
        # This also catches JAX's errors, which are subclasses of these three exceptions.
        where = f"{errors.caller()}: {op}"
        try:
            errors.explain(where, error)
        except (torch.OutOfMemoryError, CacheMissError):
            raise
        except (RuntimeError, ValueError, TypeError):
            raise RuntimeError(f"{where}: {errors.first_line(error)}") from error
    if wrong is not None:
        kind, message = wrong
        raise kind(f"{errors.caller()}: {op}: {message}")
    return results
