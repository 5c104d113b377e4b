# SPDX-License-Identifier: Apache-2.0
"""Hooks for torch/_seam/configs.py, which apply the flags given to this process or its parent.

The hooks import torch_google.flags only if a flag is given.
"""

from __future__ import annotations

import os
from types import ModuleType

_VARIABLE = "TORCH_GOOGLE_FLAGS"  # torch_google/flags/values.py sets this variable


def install() -> None:
    """Install the hooks."""
    from torch._seam import configs

    configs.installed.install(_installed)
    configs.knob.install(_knob)
    configs.knob_number.install(_knob_number)


def loaded() -> None:
    """Apply the given flags at the end of `import torch`, if torch lacks the hooks."""
    if _VARIABLE in os.environ:
        from torch_google.flags import values

        values.settle_without_hooks()


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
