# SPDX-License-Identifier: Apache-2.0
"""The builds of torch to compare: wheels in virtual environments, and the static build's PAR."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess

from benchmarks.par_startup import measure as startup
from benchmarks.par_startup.peers import Workshop
from benchmarks.static_training.measure import Peer, RunError

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def wheel(venv: startup.Peer, data: pathlib.Path) -> Peer:
    """Return a `Peer` that runs the program from source, with torch from a virtual environment."""
    command = (venv.command[0], "-m", "benchmarks.static_training.program", f"--data={data}")
    return Peer(venv.name, command, {**venv.environment, "PYTHONPATH": str(_ROOT)})


def par(shop: Workshop, path: pathlib.Path) -> Peer:
    """Return a `Peer` that runs the PAR of the static build."""
    program = shop.peer(
        "static PAR", [path.resolve(strict=True)], caches={"PAR_CACHE_DIR": "cache"}
    )
    return Peer(program.name, program.command, program.environment)


def lesser(peer: Peer) -> list[Peer]:
    """Return three copies of a `Peer`: without AVX-512, without oneDNN, and without either."""
    avx2 = {**peer.environment, "ATEN_CPU_CAPABILITY": "avx2"}
    without = (*peer.command, "--without-onednn")
    return [
        dataclasses.replace(peer, name=f"{peer.name}, AVX2", environment=avx2),
        dataclasses.replace(peer, name=f"{peer.name}, no oneDNN", command=without),
        Peer(f"{peer.name}, AVX2, no oneDNN", without, avx2),
    ]


def packed_data(peer: Peer, target: pathlib.Path) -> pathlib.Path:
    """Write the digits dataset from a PAR to `target`, for peers that do not contain it."""
    done = subprocess.run(
        [*peer.command, "data"],
        env=dict(peer.environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise RunError(
            f"{peer.command[0]}: `data` ended with status {done.returncode}: "
            f"{done.stderr.decode(errors='replace').strip()[-300:]}. "
            "Give --static-par=bazel-bin/benchmarks/static_training/program.par"
        )
    staged = target.with_name(f".{target.name}.{os.getpid()}")
    staged.write_bytes(done.stdout)
    return staged.replace(target)
