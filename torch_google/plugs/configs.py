# SPDX-License-Identifier: Apache-2.0
"""torch/_seam/configs.py: options of torch as flags set them, in this process or the one that started it.

Nothing of the flags' room is imported in a process without such an option.
"""

from __future__ import annotations

import os
from types import ModuleType

_VARIABLE = "TORCH_GOOGLE_FLAGS"  # torch_google/flags/values.py writes it


def plug() -> None:
    """Plug the answers in."""
    from torch._seam import configs

    configs.installed.plug(_installed)
    configs.knob.plug(_knob)
    configs.knob_number.plug(_knob_number)


def loaded() -> None:
    """Set what is given in a torch that has no board, at the end of its import."""
    if _VARIABLE in os.environ:
        from torch_google.flags import values

        values.settle_without_board()


def _installed(module: ModuleType) -> None:
    if _VARIABLE in os.environ:
        from torch_google.flags import values

        values.settle(module)


def _knob(name: str, default: bool) -> bool:
    if _VARIABLE in os.environ:
        from torch_google.flags import values

        return values.knob(name, default)
    return default


def _knob_number(name: str) -> int:
    if _VARIABLE in os.environ:
        from torch_google.flags import values

        return values.knob_number(name)
    return 0
