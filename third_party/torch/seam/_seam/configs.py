# SPDX-License-Identifier: Apache-2.0
"""What options are set to: torch's config modules, and the knobs that its maintainers turn at home.

Upstream reads the environment, and its knobs are never turned. Whoever plugs in may have options from
elsewhere.
"""

from types import ModuleType

from torch._seam import Hook


def _installed(module: ModuleType) -> None:
    """Set what is given for a config module that has just been installed, before anybody reads it.

    `_config` of the module has its entries, by their names; `torch.utils._config_module` says what an
    entry is.
    """


def _knob(name: str, default: bool) -> bool:
    """Return whether the knob of this name is on."""
    return default


def _knob_number(name: str) -> int:
    """Return the number that the knob of this name is set to."""
    return 0


installed = Hook(_installed)
knob = Hook(_knob)
knob_number = Hook(_knob_number)
