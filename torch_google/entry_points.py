# SPDX-License-Identifier: Apache-2.0
"""The functions that torch calls, through entry points, when it is imported."""

from importlib import import_module

from torch_google import alias

_MODULES = ("configs", "files", "logs", "processes")


def install_hooks() -> None:
    """Install all hooks. The patched torch calls this, via an entry point, as it is imported."""
    for module in _MODULES:
        import_module(f"torch_google.hooks.{module}").install()


def loaded() -> None:
    """Alias `torch.google` to this package, and apply flags to a torch that has no hooks.

    Every torch, patched or not, calls this through an entry point at the end of its import.
    """
    alias.install()
    import_module("torch.google")
    import_module("torch_google.hooks.configs").loaded()
