# SPDX-License-Identifier: Apache-2.0
"""Measure torch.distributed on the `tpu` device, relative to gloo on CPU tensors; see README.md.

This is not `__main__.py`, because spawned processes cannot import a package's `__main__`.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing

from benchmarks import results
from benchmarks.collectives import worker
from benchmarks.collectives.worker import Timing

_PEER = "gloo on CPU tensors"
_CASES: dict[str, Callable[[], dict[str, Callable[[], Any]]]] = {
    "all_reduce, 1 KiB": functools.partial(worker.all_reduce, 256),
    "all_reduce, 4 MiB": functools.partial(worker.all_reduce, 1 << 20),
    "all_reduce, 64 MiB": functools.partial(worker.all_reduce, 1 << 24),
    "DDP, step of a GPT": worker.ddp,
    "FSDP2, step of a GPT": worker.fsdp2,
}


def main(arguments: list[str]) -> int:
    """Start the ranks, run the benchmark on them, and print rank 0's measurements."""
    parser = argparse.ArgumentParser(
        prog="python3 -m benchmarks.collectives",
        description="Measure torch.distributed on tpu; see README.md.",
    )
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--mode", choices=("strict", "fused", "debug"), default="strict")
    parser.add_argument("--cases", nargs="+", choices=list(_CASES), default=list(_CASES))
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        torch.multiprocessing.spawn(_rank, (options, path), nprocs=options.ranks)
        timings, held = torch.load(path / "timings", weights_only=False)
    figures = []
    for timing in timings:
        figures.append(
            results.Figure(
                case=f"{timing.case}, {options.ranks} ranks",
                subject=f"tpu, {options.mode}",
                peer=_PEER,
                threads=1,
                runs=options.rounds,
                wall_seconds=statistics.median(timing.wall["tpu"]),
                wall_ratio=timing.ratio(timing.wall),
                cpu_seconds=statistics.median(timing.cpu["tpu"]),
                cpu_ratio=timing.ratio(timing.cpu),
            )
        )
        print(
            f"{timing.case}: {1000 * statistics.median(timing.wall['tpu']):.2f} ms, "
            f"{figures[-1].wall_ratio:.2f} of gloo's time, {figures[-1].cpu_ratio:.2f} of its CPU time"
        )
    share = held["fsdp2"] / held["ddp"]
    print(f"FSDP2 holds {share:.3f} of DDP's bytes of parameters and optimizer per rank")
    figures.append(
        results.Figure(
            case=f"parameters and optimizer of a rank, {options.ranks} ranks",
            subject="FSDP2",
            peer="DDP",
            number=share,
            unit="of DDP's bytes",
        )
    )
    if options.json:
        results.write(options.json, "collectives", figures)
    return 0


def _pin(rank: int) -> None:
    """Pin this process to one processor, so that torch's and XLA's thread pools have one thread."""
    usable = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {usable[rank % len(usable)]})


def _rank(rank: int, options: argparse.Namespace, folder: Path) -> None:
    _pin(rank)
    torch.set_num_threads(1)
    dist.init_process_group(
        store=dist.FileStore(str(folder / "store"), options.ranks),
        rank=rank,
        world_size=options.ranks,
        timeout=datetime.timedelta(minutes=5),
    )
    torch.tpu.set_eager_mode(options.mode)
    timings: list[Timing] = []
    for case in options.cases:
        rounds = max(5, options.rounds // 4) if "64" in case else options.rounds
        timings.append(worker.measure(case, _CASES[case](), rounds))
    held = {kind: worker.state_bytes(kind) for kind in ("ddp", "fsdp2")}
    if rank == 0:
        torch.save((timings, held), folder / "timings")
    dist.barrier()
    dist.destroy_process_group()
