# SPDX-License-Identifier: Apache-2.0
"""The board: questions that torch asks its surroundings, and where a program plugs in its answers.

A patch of upstream's code is a line that asks a hook of a module beside this one. Until something is
plugged in, the answer is upstream's, to the letter. Whoever has others declares an entry point of the
group `torch.seam`, a function without arguments: it is called once, at the start of `import torch`,
before torch opens a log or reads its environment. It should only plug in functions, and import what
they need when they are called.

These modules import nothing of torch, so they are there before torch is. Nothing here names whoever
plugs in.
"""

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

GROUP = "torch.seam"

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Hook(Generic[_P, _R]):
    """A question with upstream's answer, until `plug` gives it another. Call it to ask."""

    def __init__(self, upstream: Callable[_P, _R]) -> None:
        self.upstream = upstream
        self._answer = upstream
        self.__doc__ = upstream.__doc__

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self._answer(*args, **kwargs)

    def plug(self, answer: Callable[_P, _R]) -> None:
        """Answer by `answer` from now on; it may call `upstream` for what it leaves alone."""
        self._answer = answer

    def unplug(self) -> None:
        """Give upstream's answer again."""
        self._answer = self.upstream

    @property
    def plugged(self) -> bool:
        """Whether the answer is not upstream's."""
        return self._answer is not self.upstream


def plug_in() -> None:
    """Call every entry point of the group, in the order of their names.

    Raises RuntimeError that names the entry point when one fails.
    """
    from importlib.metadata import entry_points

    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            entry.load()()
        except Exception as error:
            raise RuntimeError(
                f"import torch: entry point '{entry.name} = {entry.value}' of {GROUP} failed: "
                f"{error!r}. Install the package anew, or without that entry point"
            ) from error
