# SPDX-License-Identifier: Apache-2.0
"""Tests that editing a kernel changes its key in the on-disk cache, even if it keeps its name."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import jax, torch, torch_google.tpu
torch_google.tpu.autoload()
from torch_google.tpu.runtime import compiler
compile_ = compiler.compiled
def note(name, lower, *, fingerprint, **options):
    if "edited" in name or name.startswith(("torch.compile", "a trace of")):
        print(name.partition("::")[0], fingerprint)
    return compile_(name, lower, fingerprint=fingerprint, **options)
compiler.compiled = note
@torch_google.tpu.custom_kernel("kernels_test::edited")
def edited(x: jax.Array) -> jax.Array:
    return x * {factor}
x = torch.ones(3, device="tpu")
edited(x)
torch.compile(lambda x: edited(x) + 1)(x)
with torch.tpu.eager_mode("fused"):
    for _ in range(3):
        y = x
        for _ in range(10):
            y = edited(y)
        y.sum().item()
        torch.tpu.wait_for_compiles()
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


@pytest.mark.full
def test_what_a_kernel_does_is_in_its_fingerprint() -> None:
    first = fingerprints(2)
    assert len(first) == 3  # one program each for eager, compiled and fused execution
    assert fingerprints(2) == first
    assert not set(fingerprints(3)) & set(first)
