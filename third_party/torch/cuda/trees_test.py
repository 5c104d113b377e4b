# SPDX-License-Identifier: Apache-2.0
"""The patched trees of the CPU wheel and the CUDA wheel differ only in generated files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

_RUNFILES = Path(os.environ["TEST_SRCDIR"])
# Files that depend on the options of upstream's build, or that exist in only one of the trees.
_GENERATED = {
    "torch/src_hash.txt",
    "torch/version.py",
}


def _sources(repository: str) -> dict[str, str]:
    (site,) = _RUNFILES.glob(f"*{repository}/site")
    return {
        path.relative_to(site).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for name in ("torch", "functorch", "torchgen")
        for path in (site / name).rglob("*")
        if path.suffix in (".py", ".pyi", ".txt", ".yaml") and path.is_file()
    }


def test_the_code_of_both_wheels_is_equal() -> None:
    cpu, cuda = _sources("torch_release"), _sources("torch_cuda")
    assert len(cpu) > 2000
    assert {path for path in cpu.keys() | cuda.keys() if cpu.get(path) != cuda.get(path)} == (
        _GENERATED
    )
