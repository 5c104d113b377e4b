# SPDX-License-Identifier: Apache-2.0
"""Without --config=cuda, a program with torch contains no CUDA wheels."""

from __future__ import annotations

from pathlib import Path

_LIST = Path(__file__).parent / "default_bundles.txt"
_ROWS = [line.split("\t") for line in _LIST.read_text().splitlines()]


def test_torch_is_the_cpu_wheel() -> None:
    (repository,) = (repository for name, repository, _ in _ROWS if name == "torch")
    assert repository.endswith("torch_release")


def test_no_wheel_is_a_part_of_cuda() -> None:
    names = {name.lower() for name, _, _ in _ROWS}
    assert {"numpy", "jaxlib"} <= names
    assert not {name for name in names if name.startswith(("nvidia", "cuda", "triton"))}
    assert not [name for name, _, toolkit in _ROWS if toolkit]
