# SPDX-License-Identifier: Apache-2.0
"""A kernel that was edited is another program to a cache on disk, though its name is the same."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import jax, torch, torch_google.tpu
torch_google.tpu.autoload()
from torch_google.tpu.runtime import compiler
compile_ = compiler.executable
def note(name, lower, *, fingerprint):
    if "edited" in name or name == "torch.compile":
        print(fingerprint)
    return compile_(name, lower, fingerprint=fingerprint)
compiler.executable = note
@torch_google.tpu.custom_kernel("kernels_test::edited")
def edited(x: jax.Array) -> jax.Array:
    return x * {factor}
x = torch.ones(3, device="tpu")
edited(x)
torch.compile(lambda x: edited(x) + 1)(x)
"""


def fingerprints(factor: int) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(factor=factor)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_what_a_kernel_does_is_in_its_fingerprint() -> None:
    eager, graph = fingerprints(2)
    assert fingerprints(2) == [eager, graph]
    other_eager, other_graph = fingerprints(3)
    assert other_eager != eager
    assert other_graph != graph
