# SPDX-License-Identifier: Apache-2.0
"""The cases, in one module for each kind of library. A case imports its library when it runs."""

import functools
from importlib import import_module
from pathlib import Path


@functools.cache
def load() -> None:
    """Import all modules of this package, which add their cases to the table.

    Later calls do nothing, so a module that is added during a run does not change the table.
    """
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem != "__init__":
            import_module(f"{__name__}.{path.stem}")
