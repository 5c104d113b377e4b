# SPDX-License-Identifier: Apache-2.0
"""PAR_TRACE_IMPORTS=1: one line for each module that the archive's importer finds."""

from __future__ import annotations

import sys
import time
from importlib.machinery import ModuleSpec

_START = time.perf_counter()


def print_import(spec: ModuleSpec) -> None:
    elapsed = (time.perf_counter() - _START) * 1e3
    where = spec.origin or "namespace"
    try:
        print(f"par: {elapsed:9.1f} ms  {spec.name}  {where}", file=sys.stderr)
    except OSError:  # the reader is gone, and an import must not fail for it
        sys.stderr = None
