# SPDX-License-Identifier: Apache-2.0
"""Train with each build of torch in turn, each time in a new process, and compute medians."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class RunError(RuntimeError):
    """A training run failed. The message is one line."""


@dataclass(frozen=True)
class Peer:
    """A build of torch to compare, with the command and environment that run program.py with it."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Sample:
    """One process's result: seconds per epoch or step, last loss, and torch's build settings."""

    cpu: float
    wall: float
    loss: float
    made_of: Mapping[str, Any]


@dataclass(frozen=True)
class Figure:
    """A torch build's median times in seconds, and its speeds relative to the first build."""

    peer: str
    cpu: float
    wall: float
    speed: float
    wall_speed: float
    loss: float
    rounds: int


def interleaved(
    case: str, peers: Sequence[Peer], *, threads: int, rounds: int
) -> dict[str, list[Sample]]:
    """Train with each build once per round, rotating the order so that load affects all equally."""
    samples: dict[str, list[Sample]] = {peer.name: [] for peer in peers}
    for number in range(rounds):
        first = number % len(peers)
        for peer in (*peers[first:], *peers[:first]):
            samples[peer.name].append(train(peer, case, threads=threads))
    return samples


def train(peer: Peer, case: str, *, threads: int) -> Sample:
    """Perform a training run on `threads` processors. Raises RunError if the program fails."""
    command = [*peer.command, case, f"--threads={threads}"]
    done = subprocess.run(
        command,
        env={**peer.environment, "OMP_NUM_THREADS": str(threads)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: _pin(threads),
    )
    if done.returncode:
        last_line = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise RunError(
            f"{peer.name}: `{' '.join(command)}` ended with status {done.returncode} and printed: "
            f"{last_line}. Run that command alone."
        )
    return Sample(**json.loads(done.stdout.splitlines()[-1]))


def summarize(samples: Mapping[str, Sequence[Sample]]) -> list[Figure]:
    """Return the medians of each build's samples, in the order of `samples`."""
    base = next(iter(samples.values()))
    return [
        Figure(
            peer,
            statistics.median(sample.cpu for sample in taken),
            statistics.median(sample.wall for sample in taken),
            statistics.median(its.cpu / mine.cpu for mine, its in zip(taken, base, strict=True)),
            statistics.median(its.wall / mine.wall for mine, its in zip(taken, base, strict=True)),
            taken[-1].loss,
            len(taken),
        )
        for peer, taken in samples.items()
    ]


def _pin(threads: int) -> None:
    """Pin this process to the last `threads` processors that it may use."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
