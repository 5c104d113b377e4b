# SPDX-License-Identifier: Apache-2.0
"""The entry points of this package, which torch calls during `import torch`."""

from importlib import import_module

from torch_google import alias

_MODULES = ("configs", "files", "logs", "processes")


def install_hooks() -> None:
    """Install all hooks. Only patched builds of torch call this, early in their import."""
    for module in _MODULES:
        import_module(f"torch_google.hooks.{module}").install()


def loaded() -> None:
    """Alias `torch.google` to this package, and apply flags if torch lacks the hooks.

    Patched and unpatched versions of torch both call this at the end of `import torch`.
    """
    alias.install()
    import_module("torch.google")
    import_module("torch_google.hooks.configs").loaded()
