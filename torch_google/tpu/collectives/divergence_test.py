# SPDX-License-Identifier: Apache-2.0
"""Ranks that diverge between collectives still get the right values, or all of them get an error.

For each rank, Hypothesis draws an eager mode, local operators, reads and pauses. A fault pauses a
rank, kills it, or makes it call a different collective.
"""

from __future__ import annotations

import dataclasses
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tools.par.testing.budget import examples, is_full
from torch_google.tpu.testing.ranks import Ranks, caught

_IS_FULL = is_full()
_SIZE = 3
# All times are in seconds.
_STOP = 5.0 if _IS_FULL else 1.0


@dataclasses.dataclass(frozen=True)
class Local:
    """One rank's actions before a collective, and how it calls the collective."""

    mode: str
    operators: int
    reads: bool
    pause: float
    is_async: bool


@dataclasses.dataclass(frozen=True)
class Step:
    """A collective, and how each rank prepares and calls it.

    `odd`, if set, is the rank that passes a tensor of a different size.
    """

    kind: str
    length: int
    locals: tuple[Local, ...]
    odd: int | None = None


@st.composite
def _steps(draw: st.DrawFn) -> list[Step]:
    local = st.builds(
        Local,
        mode=st.sampled_from(["strict", "fused", "debug"]),
        operators=st.integers(0, 6),
        reads=st.booleans(),
        pause=st.sampled_from([0.0, 0.0, 0.0, 0.05, 0.3]),
        is_async=st.booleans(),
    )
    step = st.builds(
        Step,
        kind=st.sampled_from(["all_reduce", "broadcast", "gather", "scatter", "ring"]),
        # Only the smaller lengths fit into the messages that ranks exchange before each collective.
        length=st.sampled_from([1, 7, 900, 3000]),
        locals=st.tuples(*[local] * _SIZE),
        odd=st.one_of(st.none(), st.none(), st.none(), st.integers(0, _SIZE - 1)),
    )
    return draw(st.lists(step, min_size=1, max_size=6))


def _value(rank: int, index: int, length: int) -> torch.Tensor:
    return (torch.arange(length) % 5 + rank + 10 * index).float()


def _expected(step: Step, rank: int, index: int) -> list[float] | None:
    """Return the expected result on a rank, or None if the ranks' sizes differ."""
    if step.odd is not None and step.kind != "ring":
        return None
    values = [_value(peer, index, step.length) for peer in range(_SIZE)]
    if step.kind == "all_reduce":
        result = torch.stack(values).sum(0)
    elif step.kind == "broadcast":
        result = values[1]
    elif step.kind == "gather":
        result = torch.cat(values)
    elif step.kind == "scatter":
        result = torch.stack(values).sum(0).repeat(_SIZE).chunk(_SIZE)[rank]
    else:
        result = values[(rank - 1) % _SIZE]
    return result.tolist()


def _call(step: Step, rank: int, value: torch.Tensor, is_async: bool) -> torch.Tensor:
    if step.kind == "ring":
        incoming = torch.empty_like(value)
        works = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, value, (rank + 1) % _SIZE),
                dist.P2POp(dist.irecv, incoming, (rank - 1) % _SIZE),
            ]
        )
        for work in works:
            work.wait()
        return incoming
    result = value
    if step.kind == "all_reduce":
        work = dist.all_reduce(value, async_op=is_async)
    elif step.kind == "broadcast":
        work = dist.broadcast(value, 1, async_op=is_async)
    elif step.kind == "gather":
        result = torch.empty(_SIZE * value.numel(), device="tpu")
        work = dist.all_gather_into_tensor(result, value, async_op=is_async)
    else:
        result = torch.empty(value.numel(), device="tpu")
        work = dist.reduce_scatter_tensor(result, value.repeat(_SIZE), async_op=is_async)
    if work is not None:
        work.wait()
    return result


def _turn(rank: int, index: int, step: Step) -> Any:
    """Run one step on a rank, and return the result or the error."""
    length = step.length + (step.kind != "ring" and step.odd == rank)
    value = _value(rank, index, length).to("tpu") * 2 / 2
    output: list[torch.Tensor] = []
    is_async = step.locals[rank].is_async
    error = caught(lambda: output.append(_call(step, rank, value, is_async)))
    return error if error[0] else (output[0] + 0).tolist()


def _perform(rank: int, steps: list[Step]) -> list[Any]:
    results: list[Any] = []
    noise = torch.ones(3 + rank, 2, device="tpu")
    for index, step in enumerate(steps):
        local = step.locals[rank]
        time.sleep(local.pause)
        with torch.tpu.eager_mode(local.mode):
            for turn in range(local.operators):
                noise = noise * (1.0 + 0.01 * turn) + rank
            if local.reads:
                noise.sum().item()
            results.append(_turn(rank, index, step))
    return results


def _check(steps: list[Step], rank: int, results: list[Any]) -> None:
    for index, (step, result) in enumerate(zip(steps, results, strict=True)):
        expected = _expected(step, rank, index)
        if expected is None:
            assert isinstance(result, tuple), (step, rank, result)
            assert result[0] == "DistBackendError"
            assert "disagree in collective" in result[1]
        else:
            assert result == expected, (step, rank)


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    with Ranks(_SIZE) as started:
        yield started


_SETTINGS = {
    "deadline": None,
    # Do not shrink examples: each attempt takes seconds, and the fault would occur at a different
    # moment.
    "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
    "derandomize": not _IS_FULL,
}


@given(steps=_steps(), stopped=st.one_of(st.none(), st.integers(0, _SIZE - 1)))
@settings(max_examples=examples(160, part=16), **_SETTINGS)
def test_divergent_ranks(ranks: Ranks, steps: list[Step], stopped: int | None) -> None:
    ranks.start(_perform, steps)
    if stopped is not None:
        ranks.signal(stopped, signal.SIGSTOP)
        time.sleep(_STOP)
        ranks.signal(stopped, signal.SIGCONT)
    for rank in range(_SIZE):
        _check(steps, rank, ranks.result(rank))


@pytest.mark.full
@given(steps=_steps(), victim=st.integers(0, _SIZE - 1), moment=st.floats(0, 0.5))
@settings(max_examples=40 if _IS_FULL else 1, **_SETTINGS)
def test_a_rank_is_killed_at_any_moment(steps: list[Step], victim: int, moment: float) -> None:
    with Ranks(_SIZE) as ranks:
        ranks.run(_perform, steps[:1])
        ranks.start(_perform, steps)
        time.sleep(moment)
        ranks.signal(victim, signal.SIGKILL)
        for rank in set(range(_SIZE)) - {victim}:
            for index, result in enumerate(ranks.result(rank)):
                if isinstance(result, tuple):
                    assert result[0] == "DistBackendError"
                else:
                    assert result == _expected(steps[index], rank, index)
