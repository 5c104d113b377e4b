# SPDX-License-Identifier: Apache-2.0
"""A failure in a collective raises a Python error on every rank, and never aborts a process."""

from __future__ import annotations

import datetime
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tools.par.testing.budget import only_full
from torch_google.tpu.testing.ranks import Ranks, caught, shorten, wait_for_file

_SIZE = 2
# Element counts. 6 elements fit into the messages that ranks exchange before each collective; 6000
# do not.
_LENGTHS = [6, 6000]


@pytest.fixture(scope="module", params=["host", *only_full("xla")])
def ranks(request: pytest.FixtureRequest) -> Iterator[Ranks]:
    with Ranks(_SIZE, environ={"TORCH_TPU_COLLECTIVES": request.param}) as started:
        yield started


def _ones(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(sizes, dtype=dtype, device="tpu")


# ---- Ranks whose calls do not match


def _sizes(rank: int, length: int) -> None:
    dist.all_reduce(_ones(length + rank))


def _dtypes(rank: int, length: int) -> None:
    dist.all_reduce(_ones(length, dtype=[torch.float32, torch.int32][rank]))


def _operations(rank: int, length: int) -> None:
    dist.all_reduce(_ones(length), op=[dist.ReduceOp.SUM, dist.ReduceOp.MAX][rank])


def _kinds(rank: int, length: int) -> None:
    if rank == 0:
        dist.all_reduce(_ones(length))
    else:
        dist.broadcast(_ones(length), 0)


def _roots(rank: int, length: int) -> None:
    dist.broadcast(_ones(length), rank)


def _gathered(rank: int, length: int) -> None:
    dist.all_gather_into_tensor(_ones(2 * length + 2 * rank), _ones(length + rank))


def _listed(rank: int, length: int) -> None:
    dist.all_gather([_ones(length), _ones(length + rank)], _ones(length + rank))


def _splits(rank: int, length: int) -> None:
    outgoing, incoming = [([2, 4], [2, 3]), ([3, 3], [5, 3])][rank]
    dist.all_to_all_single(_ones(sum(incoming), length), _ones(6, length), incoming, outgoing)


def _invalid(rank: int, length: int) -> None:
    # The output has the wrong size on rank 1 only.
    dist.all_gather_into_tensor(_ones(2 * length + rank), _ones(length))


def _disagree(rank: int, case: str, length: int) -> tuple[str, str]:
    error = caught(lambda: globals()[case](rank, length))
    # The group must still work after the error.
    value = _ones(3)
    dist.all_reduce(value)
    assert value.tolist() == [2.0] * 3
    return error


@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize(
    ("case", "shown"),
    [
        ("_sizes", "rank 1: all_reduce SUM of float32[{more}]"),
        ("_dtypes", "rank 1: all_reduce SUM of int32[{length}]"),
        ("_operations", "rank 1: all_reduce MAX of float32[{length}]"),
        ("_kinds", "rank 1: broadcast of float32[{length}], root 0"),
        ("_roots", "rank 1: broadcast of float32[{length}], root 1"),
        ("_gathered", "rank 1: all_gather_into_tensor of float32[{more}]"),
        ("_listed", "rank 1 sends {more_bytes} bytes to rank 0, which expects {bytes}"),
        ("_splits", "rank 0 sends {four} bytes to rank 1, which expects {five}"),
    ],
)
def test_a_disagreement_is_an_error_on_every_rank(
    ranks: Ranks, case: str, shown: str, length: int
) -> None:
    errors = ranks.run(_disagree, case, length)
    shown = shown.format(
        length=length,
        more=length + 1,
        bytes=4 * length,
        more_bytes=4 * length + 4,
        four=16 * length,
        five=20 * length,
    )
    for name, text in errors:
        assert name == "DistBackendError"
        assert "tpu: torch.distributed: the ranks of group 'default_pg' disagree" in text
        assert "rank 0: " in text
        assert shown in text
        assert "\nNo data was moved, and the group can still be used." in text
    assert errors[0] == errors[1]


def test_arguments_that_one_rank_must_not_pass(ranks: Ranks) -> None:
    (peer, text), (name, own) = ranks.run(_disagree, "_invalid", 4)
    assert name == "ValueError"
    assert "all_gather_into_tensor: the output has 9 elements, but must have 8" in own
    assert peer == "DistBackendError"
    assert "rank 1: refused: tpu: torch.distributed: all_gather_into_tensor: the output" in text


def _message(rank: int, length: int) -> tuple[str, str]:
    if rank == 0:
        error = caught(lambda: dist.send(_ones(length), 1))
    else:
        error = caught(lambda: dist.recv(_ones(length + 1), 0))
    value = _ones(3)
    dist.all_reduce(value)
    assert value.tolist() == [2.0] * 3
    return error


@pytest.mark.parametrize("length", _LENGTHS)
def test_a_message_of_another_size(ranks: Ranks, length: int) -> None:
    sent, (name, text) = ranks.run(_message, length)
    assert name == "DistBackendError"
    assert f"rank 0 sends {4 * length} bytes (send of float32[{length}]) to rank 1" in text
    assert f"which expects {4 * length + 4}" in text
    # A small message is sent before the receiver's size is known, so the sender's call may succeed.
    assert sent == ("", "") or sent[0] == "DistBackendError"


def _refused_dtype(rank: int) -> tuple[str, str]:
    return caught(lambda: dist.all_reduce(_ones(3, dtype=torch.complex64), op=dist.ReduceOp.MAX))


def test_what_no_rank_may_do(ranks: Ranks) -> None:
    for name, _ in ranks.run(_refused_dtype):
        assert name in ("TypeError", "ValueError")


# ---- Ranks that die, are late, or never join


def _late(rank: int, called: str, length: int) -> list[float]:
    """Let rank 1 join the collective only after rank 0's call to all_reduce has returned."""
    if rank == 1:
        wait_for_file(called)
    value = _ones(length)
    work = dist.all_reduce(value, async_op=True)
    if rank == 0:
        Path(called).touch()
    work.wait()
    return value.unique().tolist()


@pytest.mark.parametrize("length", _LENGTHS)
def test_a_late_rank_does_not_delay_the_call_of_another(
    ranks: Ranks, length: int, tmp_path: Path
) -> None:
    assert ranks.run(_late, str(tmp_path / "called"), length) == [[2.0]] * _SIZE


def _too_late(rank: int, failed: str, length: int) -> list[tuple[str, str]]:
    """Let rank 1 join the collective only after it has failed on rank 0."""
    if rank == 1:
        wait_for_file(failed)
    value = _ones(length)
    work = dist.all_reduce(value, async_op=True)  # raises no error, because it does not wait
    errors = [caught(work.wait), caught(value.tolist)]
    if rank == 0:
        Path(failed).touch()
    return errors


def test_a_rank_that_never_comes(tmp_path: Path) -> None:
    length = 6000
    with Ranks(_SIZE) as ranks:
        ranks.run(shorten, 3.0)
        ranks.start(_too_late, str(tmp_path / "failed"), length)
        (name, text), read = ranks.result(0)
        assert name == "DistBackendError"
        assert f"all_reduce SUM of float32[{length}], collective 1 of group 'default_pg'" in text
        assert "rank 1: no answer: it has ended, or is not in a collective" in text
        assert read[0] == "DistBackendError"
        # The late rank gets an error as soon as it joins.
        (name, text), _ = ranks.result(1)
        assert name == "DistBackendError"
        assert "The group is broken" in text


def _reduce(rank: int, length: int) -> tuple[str, str]:
    work = dist.all_reduce(_ones(length), async_op=True)
    return caught(work.wait)


@pytest.mark.parametrize(("victim", "length"), [(0, 6), (2, 6000)])
def test_a_rank_that_is_killed(victim: int, length: int) -> None:
    # The group's timeout exceeds the time that a test waits for a result, so it cannot be the cause
    # of the errors.
    with Ranks(3, timeout=3600.0) as ranks:
        ranks.run(_reduce, length)
        ranks.signal(victim, signal.SIGSTOP)
        ranks.start(_reduce, length)
        time.sleep(1)
        ranks.signal(victim, signal.SIGKILL)
        for rank in {0, 1, 2} - {victim}:
            name, text = ranks.result(rank)
            assert name == "DistBackendError"
            assert "of group 'default_pg' failed on rank" in text
            assert f"rank {victim}: no answer" in text


def _stopped(rank: int) -> list[float]:
    value = _ones(6000) * (rank + 1)
    dist.all_reduce(value)
    return [value.sum().item()]


def test_a_rank_that_stops_for_seconds(ranks: Ranks) -> None:
    ranks.signal(1, signal.SIGSTOP)
    ranks.start(_stopped)
    time.sleep(3)
    ranks.signal(1, signal.SIGCONT)
    assert [ranks.result(rank) for rank in range(_SIZE)] == [[18000.0]] * 2


def _timeout_of_wait(rank: int, expired: str) -> tuple[str, str]:
    if rank == 1:
        wait_for_file(expired)
    value = _ones(3)
    work = dist.all_reduce(value, async_op=True)
    error = ("", "")
    if rank == 0:
        error = caught(lambda: work.wait(datetime.timedelta(seconds=0.3)))
        Path(expired).touch()
    work.wait()
    assert value.tolist() == [2.0] * 3
    return error


def test_the_timeout_of_wait(ranks: Ranks, tmp_path: Path) -> None:
    (name, text), _ = ranks.run(_timeout_of_wait, str(tmp_path / "expired"))
    assert name == "DistBackendError"
    assert "all_reduce has not ended within the timeout of wait(), 300 ms. It goes on" in text


def _again(rank: int, store: str) -> list[float]:
    dist.destroy_process_group()
    dist.init_process_group(store=dist.FileStore(store, _SIZE), rank=rank, world_size=_SIZE)
    value = _ones(3)
    dist.all_reduce(value)
    return value.tolist()


def test_destroy_and_init_again(ranks: Ranks, tmp_path: Any) -> None:
    for turn in range(2):
        assert ranks.run(_again, str(tmp_path / f"store{turn}")) == [[2.0] * 3] * 2
