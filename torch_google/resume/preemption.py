# SPDX-License-Identifier: Apache-2.0
"""Stop all ranks after the same step if any rank receives SIGTERM."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

import torch
from torch import distributed


class Preempted(SystemExit):
    """Raised after SIGTERM, once the state is saved. The exit status is 143 (128 + SIGTERM)."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


@contextlib.contextmanager
def terminations() -> Iterator[Callable[[], bool]]:
    """Catch SIGTERM during a `with` block. Yields a function that returns whether it has arrived.

    Only the main thread may call this, because Python can install signal handlers only there.
    """
    arrived = False

    def note(_number: int, _frame: FrameType | None) -> None:
        nonlocal arrived
        arrived = True

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield lambda: arrived
    finally:
        signal.signal(signal.SIGTERM, before)


def ranks() -> distributed.ProcessGroup | None:
    """Return a new gloo group of all ranks, or None if this process is the only rank.

    All ranks must call this.
    """
    if not distributed.is_initialized() or distributed.get_world_size() == 1:
        return None
    group: distributed.ProcessGroup = distributed.new_group(backend="gloo")
    return group


class Agreement:
    """A vote among ranks. All ranks get the same result."""

    def __init__(self, group: distributed.ProcessGroup | None) -> None:
        self._group = group
        self._pending: tuple[distributed.Work, torch.Tensor] | None = None

    def any_before(self, answer: bool) -> bool:
        """Submit this rank's answer. Return whether any rank submitted True in the previous call.

        The ranks exchange their answers between calls, so a call waits only for ranks that have not
        made the previous call. The first call returns False. In a single process, every call
        returns `answer` itself.
        """
        if self._group is None:
            return answer
        before = self._pending
        value = torch.tensor([int(answer)])
        work = distributed.all_reduce(
            value, distributed.ReduceOp.MAX, group=self._group, async_op=True
        )
        assert work is not None
        self._pending = (work, value)
        if before is None:
            return False
        before[0].wait()
        return bool(before[1].item())

    def same(self, answer: bool) -> bool | None:
        """Return `answer` if all ranks gave the same answer, else None."""
        if self._group is None:
            return answer
        values = torch.tensor([int(answer), int(not answer)])
        distributed.all_reduce(values, distributed.ReduceOp.MAX, group=self._group)
        yes, no = (bool(value) for value in values.tolist())
        return None if yes and no else yes
