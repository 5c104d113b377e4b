# SPDX-License-Identifier: Apache-2.0
"""Print the output of PAR_TRACE_IMPORTS=1: a line for each module that the importer finds."""

from __future__ import annotations

import sys
import time
from importlib.machinery import ModuleSpec

_START = time.perf_counter()


def print_import(spec: ModuleSpec) -> None:
    elapsed = (time.perf_counter() - _START) * 1e3
    origin = spec.origin or "namespace"
    try:
        print(f"par: {elapsed:9.1f} ms  {spec.name}  {origin}", file=sys.stderr)
    except OSError:  # a closed stderr must not make an import fail
        sys.stderr = None
