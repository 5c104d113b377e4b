# SPDX-License-Identifier: Apache-2.0
"""The hooks through which other packages change what torch does.

Each patch to upstream's code is a line that calls a hook in one of the modules next to this one.
Until another implementation is installed, a hook does exactly what upstream does. A package that
has other implementations declares an entry point in the group `torch.seam`, a function without
arguments. It is called once, at the start of `import torch`, before torch opens a log or reads its
environment. It should only install functions, and these should import their dependencies when they
are called.

These modules import nothing from torch, so they can be loaded before it. They never name the
packages that install implementations.
"""

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

GROUP = "torch.seam"

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Hook(Generic[_P, _R]):
    """A function that has upstream's implementation until `install` sets another."""

    def __init__(self, upstream: Callable[_P, _R]) -> None:
        self.upstream = upstream
        self._implementation = upstream
        self.__doc__ = upstream.__doc__

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self._implementation(*args, **kwargs)

    def install(self, implementation: Callable[_P, _R]) -> None:
        """Use `implementation` from now on. For cases that it leaves alone, it may call `upstream`."""
        self._implementation = implementation

    def restore(self) -> None:
        """Use upstream's implementation again."""
        self._implementation = self.upstream

    @property
    def replaced(self) -> bool:
        """Whether another implementation than upstream's is installed."""
        return self._implementation is not self.upstream


def install_hooks() -> None:
    """Call every entry point in the group, in the order of their names.

    Raises RuntimeError that names the entry point that failed.
    """
    from importlib.metadata import entry_points

    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            entry.load()()
        except Exception as error:
            raise RuntimeError(
                f"import torch: entry point '{entry.name} = {entry.value}' of {GROUP} failed: "
                f"{error!r}. Reinstall the package, or install it without that entry point"
            ) from error
