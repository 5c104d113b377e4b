# SPDX-License-Identifier: Apache-2.0
"""The loop over a run's steps, starting after the last saved step."""

from __future__ import annotations

import os
from collections.abc import Iterator

from torch_google.resume.preemption import Agreement, Preempted, ranks, terminations
from torch_google.resume.state import State


def steps(
    total: int, state: State, directory: str | os.PathLike[str], *, every: int = 0
) -> Iterator[int]:
    """Yield the numbers of the remaining steps, up to `total - 1`, and save the state.

    First, restore the state from `directory`, if it contains a checkpoint. Save the state every
    `every` steps (0: never), at the end, and after any rank gets SIGTERM. After SIGTERM, also raise
    Preempted in all ranks. All ranks must call this in the main thread, and iterate over the same
    steps.
    """
    if total < 0 or every < 0:
        raise ValueError(f"steps: found total={total}, every={every}; expected 0 or more")
    path = os.fspath(directory).rstrip("/")
    group = ranks()
    agreement = Agreement(group)
    with terminations() as terminated:
        step = saved = state.load(path, group)
        while step < total:
            yield step
            step += 1
            preempted = agreement.any_before(terminated())
            if preempted or step == total or (every and step - saved >= every):
                state.save(step, path, group)
                saved = step
            if preempted and step < total:
                raise Preempted
