# SPDX-License-Identifier: Apache-2.0
"""How the debug mode runs a program: it checks the values first, then waits for the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_google.tpu.eager import check_program
from torch_google.tpu.runtime import errors
from torch_google.tpu.runtime.cache_miss import CacheMissError


def debug(op: str, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Run a program and wait for it; an error names the line that called the operator.

    What the operator's checks find, as an index that is out of range, is raised before it runs.
    """
    try:
        wrong = check_program.error_of(function, arguments)
        results = () if wrong else function(*arguments)
        for result in results:
            result.block_until_ready()
    except (RuntimeError, ValueError, TypeError) as error:  # of which JAX's are kinds
        where = f"{errors.caller()}: {op}"
        try:
            errors.explain(where, error)
        except (torch.OutOfMemoryError, CacheMissError):
            raise
        except (RuntimeError, ValueError, TypeError):
            raise RuntimeError(f"{where}: {errors.first_line(error)}") from error
    if wrong is not None:
        kind, words = wrong
        raise kind(f"{errors.caller()}: {op}: {words}")
    return results
