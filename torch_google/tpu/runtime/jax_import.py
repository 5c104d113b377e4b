# SPDX-License-Identifier: Apache-2.0
"""Imports JAX without changing the random numbers that the user's program draws.

A module of JAX draws five numbers from NumPy's global generator while it is imported. We import JAX
when the device is first used, often after a program has seeded that generator. The program would
then draw different numbers than on the CPU. A thread that draws numbers during the import draws the
same numbers again afterwards.
"""

from __future__ import annotations

import importlib
import random
import sys
from types import ModuleType


def import_jax() -> ModuleType:
    """Import JAX and return it. The global generators of Python and NumPy keep their states."""
    loaded: ModuleType | None = sys.modules.get("jax")
    if loaded is not None:
        return loaded
    python_state = random.getstate()
    numpy_random = sys.modules.get("numpy.random")
    numpy_state = None if numpy_random is None else numpy_random.get_state(legacy=False)
    try:
        return importlib.import_module("jax")
    finally:
        random.setstate(python_state)
        if numpy_random is not None:
            numpy_random.set_state(numpy_state)
