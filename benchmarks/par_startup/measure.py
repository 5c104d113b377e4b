# SPDX-License-Identifier: Apache-2.0
"""Start programs in turn and measure them, mainly by CPU time, as the machine may be shared."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import shutil
import statistics
import time
from collections.abc import Mapping, Sequence

EXPECTED = b"tensor([2., 2.])\n"


class StartError(RuntimeError):
    """A measured program had an unexpected exit status or output."""


@dataclasses.dataclass(frozen=True)
class Peer:
    """A program to compare with others, and how to start it.

    `caches` lists the directories that a cold start fills. The program must print exactly
    `expected`. If `interpreter` is true, the first word of the command is an interpreter that
    accepts `-c`. If `children` is true, the program prints one more line, with the CPU time in
    seconds and the peak memory in KiB of its child processes, and the sample contains these numbers
    instead of the program's own.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    caches: tuple[pathlib.Path, ...] = ()
    expected: bytes = EXPECTED
    interpreter: bool = False
    children: bool = False


@dataclasses.dataclass(frozen=True)
class Sample:
    """The cost of one run, in seconds and MiB. `cpu` includes system time and child processes."""

    wall: float
    cpu: float
    memory: float


@dataclasses.dataclass(frozen=True)
class Summary:
    """The medians of a program's samples. `cpu_ratio` is the median of the per-round ratios."""

    name: str
    wall: float
    cpu: float
    memory: float
    cpu_ratio: float
    rounds: int


def interleaved(
    peers: Sequence[Peer], *, rounds: int, empty_caches: bool = False
) -> dict[str, list[Sample]]:
    """Start all programs once per round, rotating the order so that load affects all equally."""
    samples: dict[str, list[Sample]] = {peer.name: [] for peer in peers}
    for number in range(rounds):
        first = number % len(peers)
        for peer in (*peers[first:], *peers[:first]):
            if empty_caches:
                for cache in peer.caches:
                    shutil.rmtree(cache, ignore_errors=True)
            samples[peer.name].append(start(peer))
    return samples


def start(peer: Peer) -> Sample:
    """Start a program, wait for it to exit, and measure it.

    Raises StartError if its exit status is not 0 or its output differs from `peer.expected`.
    """
    read_end, write_end = os.pipe()
    actions = [
        (os.POSIX_SPAWN_DUP2, write_end, 1),
        (os.POSIX_SPAWN_CLOSE, read_end),
        (os.POSIX_SPAWN_CLOSE, write_end),
    ]
    begin = time.perf_counter()
    process = os.posix_spawn(
        peer.command[0], peer.command, dict(peer.environment), file_actions=actions
    )
    os.close(write_end)
    with open(read_end, "rb") as stream:
        output = stream.read()
    _, status, usage = os.wait4(process, 0)
    wall = time.perf_counter() - begin
    code = os.waitstatus_to_exitcode(status)
    cpu, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss
    if peer.children:
        output, cpu, memory = _split_last_line(output)
    if code != 0 or output != peer.expected:
        raise StartError(
            f"{peer.name}: `{' '.join(peer.command)}` ended with status {code} and wrote "
            f"{output[-200:]!r}, expected 0 and {peer.expected!r}. Remove its directory in --work "
            "to build it again."
        )
    return Sample(wall, cpu, memory / 1024)


def _split_last_line(output: bytes) -> tuple[bytes, float, int]:
    """Split off the last line, which contains the CPU time and peak memory of the child processes.

    If that line is missing, append a note, so that the output differs from any expected output.
    """
    match = re.fullmatch(rb"(.*\n)?([0-9.]+) ([0-9]+)\n", output, re.DOTALL)
    if match is None:
        return output + b"(no line of the children's resources)", 0.0, 0
    return match[1] or b"", float(match[2]), int(match[3])


def summarize(samples: Mapping[str, Sequence[Sample]], *, base: str) -> list[Summary]:
    """Return a summary of each program in `samples`. Ratios are relative to `base`."""
    return [
        Summary(
            name=name,
            wall=statistics.median(sample.wall for sample in taken),
            cpu=statistics.median(sample.cpu for sample in taken),
            memory=statistics.median(sample.memory for sample in taken),
            cpu_ratio=statistics.median(
                sample.cpu / other.cpu for sample, other in zip(taken, samples[base], strict=True)
            ),
            rounds=len(taken),
        )
        for name, taken in samples.items()
    ]
