# SPDX-License-Identifier: Apache-2.0
"""Values of options: torch's config modules, and the knobs that its maintainers turn internally.

Upstream reads the environment and never turns its knobs. Another implementation may take options
from elsewhere.
"""

from types import ModuleType

from torch._seam import Hook


def _installed(module: ModuleType) -> None:
    """Set the values for a config module that has just been installed, before any code reads it.

    The module's `_config` maps names to entries; `torch.utils._config_module` defines an entry.
    """


def _knob(name: str, default: bool) -> bool:
    """Return whether the knob with this name is on."""
    return default


def _knob_number(name: str) -> int:
    """Return the number that the knob with this name is set to."""
    return 0


installed = Hook(_installed)
knob = Hook(_knob)
knob_number = Hook(_knob_number)
