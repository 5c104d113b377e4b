# SPDX-License-Identifier: Apache-2.0
"""What torch_google answers where torch asks its surroundings."""

from importlib import import_module

from torch_google import alias

_MODULES = ("configs", "files", "logs", "processes")


def plug() -> None:
    """Give all our answers; the patched torch calls it, through an entry point, before it starts."""
    for module in _MODULES:
        import_module(f"torch_google.plugs.{module}").plug()


def loaded() -> None:
    """Make `torch.google` this package, and set what the board would have set.

    Any torch calls it, through an entry point, once it is there.
    """
    alias.install()
    import_module("torch.google")
    import_module("torch_google.plugs.configs").loaded()
