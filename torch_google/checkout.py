# SPDX-License-Identifier: Apache-2.0
"""Warn if a checkout without compiled code shadows an installed torch_google.

If Python starts in the repository's root, it finds the checkout's `torch_google` first. The
installed wheel's entry points then import the checkout, which lacks `tpu/_C.so` until it is built.
"""

import importlib.machinery
import os
import sys
import warnings

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


def warn_if_incomplete() -> None:
    """Warn if this copy of the package lacks its compiled code but an installed copy has it.

    This warning replaces the `tpu` device's warning, which can only say that an import failed.
    """
    if os.path.exists(_extension(_PACKAGE)):
        return
    installed = _installed_package()
    if installed is None:
        return
    warnings.warn(
        f"torch_google is imported from the source tree {os.path.dirname(_PACKAGE)}, which comes "
        f"first in sys.path and hides the package installed as {installed}. The tree has no "
        "compiled torch_google/tpu/_C.so, so torch continues without the tpu device. Start Python "
        "in another directory or as `python -P`, or build the file: "
        "`python torch_google/tpu/csrc/develop.py`",
        stacklevel=2,
    )
    warnings.filterwarnings("ignore", "tpu: torch goes on without the device: cannot import name")


def _installed_package() -> str | None:
    """Return another `torch_google` directory that has compiled code, or None if there is none."""
    for directory in sys.path:
        package = os.path.join(os.path.abspath(directory), "torch_google")
        if package != _PACKAGE and os.path.exists(_extension(package)):
            return package
    return None


def _extension(package: str) -> str:
    return os.path.join(package, "tpu", "_C" + importlib.machinery.EXTENSION_SUFFIXES[-1])
