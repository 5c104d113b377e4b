# SPDX-License-Identifier: Apache-2.0
"""What torch_google answers where torch asks its surroundings."""

from importlib import import_module

# Each has a module `plugs` with `plug()`, which plugs functions into hooks of torch/_seam and imports
# nothing that those need: a program that asks for none of it pays nothing for it.
_ROOMS: tuple[str, ...] = ()


def plug() -> None:
    """Plug every room in; the patched torch calls it, through an entry point, before it starts."""
    for room in _ROOMS:
        import_module(f"torch_google.{room}.plugs").plug()
