# SPDX-License-Identifier: Apache-2.0
"""The board: hooks that torch calls to ask its surroundings, and the way to plug in answers.

Each patch to upstream's code is a line that calls a hook in one of the modules next to this one. An
unplugged hook answers exactly as upstream does. A package with other answers declares an entry
point in the group `torch.seam`, a function without arguments. It is called once, at the start of
`import torch`, before torch opens a log or reads its environment. It should only plug in functions,
and these should import their dependencies when they are called.

These modules import nothing from torch, so they can be loaded before it. They never name the
packages that plug in.
"""

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

GROUP = "torch.seam"

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Hook(Generic[_P, _R]):
    """A question that upstream answers until `plug` sets another answer. Call it to ask."""

    def __init__(self, upstream: Callable[_P, _R]) -> None:
        self.upstream = upstream
        self._answer = upstream
        self.__doc__ = upstream.__doc__

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self._answer(*args, **kwargs)

    def plug(self, answer: Callable[_P, _R]) -> None:
        """Use `answer` from now on; it may call `upstream` for cases that it does not change."""
        self._answer = answer

    def unplug(self) -> None:
        """Restore upstream's answer."""
        self._answer = self.upstream

    @property
    def plugged(self) -> bool:
        """Whether the answer differs from upstream's."""
        return self._answer is not self.upstream


def plug_in() -> None:
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
