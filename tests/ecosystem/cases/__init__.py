# SPDX-License-Identifier: Apache-2.0
"""The cases, in one module for each kind of library. A case imports its library when it runs."""

import functools
import pkgutil
from importlib import import_module


@functools.cache
def load() -> None:
    """Import all modules of this package, which add their cases to the table.

    Later calls do nothing, so a module that is added during a run does not change the table.
    """
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        import_module(module.name)
