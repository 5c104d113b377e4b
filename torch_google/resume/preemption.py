# SPDX-License-Identifier: Apache-2.0
"""Handle SIGTERM: if one rank receives it, all ranks stop after the same step."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

import torch
from torch import distributed


class Preempted(SystemExit):
    """An exit after the state is saved. The status, 143, tells the scheduler to restart the job."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


@contextlib.contextmanager
def terminations() -> Iterator[Callable[[], bool]]:
    """Note SIGTERM instead of ending the process. Yields a function.

    The function returns whether SIGTERM has arrived. Use this in the main thread, because Python
    runs signal handlers there.
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
    """Return a group of all ranks on the CPU, or None if this process is the only one.

    All ranks must call this.
    """
    if not distributed.is_initialized() or distributed.get_world_size() == 1:
        return None
    group: distributed.ProcessGroup = distributed.new_group(backend="gloo")
    return group


class Agreement:
    """A combination of the yes-or-no answers of all ranks, so that all get the same result."""

    def __init__(self, group: distributed.ProcessGroup | None) -> None:
        self._group = group
        self._pending: tuple[distributed.Work, torch.Tensor] | None = None

    def any_before(self, answer: bool) -> bool:
        """Return whether any rank's previous answer was true; submit this rank's next one.

        The ranks exchange their answers while the next step runs, so a step does not wait.
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
        """Return the answer of all ranks, or None if they disagree."""
        if self._group is None:
            return answer
        values = torch.tensor([int(answer), int(not answer)])
        distributed.all_reduce(values, distributed.ReduceOp.MAX, group=self._group)
        yes, no = (bool(value) for value in values.tolist())
        return None if yes and no else yes
