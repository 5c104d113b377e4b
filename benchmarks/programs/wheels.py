# SPDX-License-Identifier: Apache-2.0
"""Fetch the pinned wheels of a program that imports torch and NumPy, for CPUs or for CUDA."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from third_party.pypi import fetch_wheel
from third_party.pypi.fetch_wheel import Pin

KINDS = ("CPU", "CUDA")
_ROOT = Path(__file__).resolve().parents[2]
_LOCK = "third_party/pypi/lock.json"
_CUDA_LOCK = "third_party/pypi/groups/torch_cuda.lock.json"
_TORCH = {"CPU": "third_party/torch/pin.json", "CUDA": "third_party/torch/cuda/pin.json"}


def pins(kind: str) -> list[Pin]:
    """Return the pins of torch, NumPy and all their requirements, as in a program of this kind."""
    lock = _read(_LOCK)
    packages = {key: _pin(row, _LOCK) for key, row in _required(lock).items()}
    if kind == "CUDA":
        rows = _read(_CUDA_LOCK)["packages"]
        packages |= {key: _pin(row, _CUDA_LOCK) for key, row in rows.items()}
    return [_torch(kind), *(packages[key] for key in sorted(packages))]


def fetch(kind: str, directory: Path) -> None:
    """Fetch the wheels of a kind to `directory`. Wheels that are there already stay."""
    directory.mkdir(parents=True, exist_ok=True)
    index = _read(_TORCH["CPU"])["wheel"]["extra_index"]
    for pin in pins(kind):
        if (directory / pin.filename).is_file():
            continue
        extra_index = index if pin.source == _TORCH["CPU"] else None
        with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
            wheel = fetch_wheel.fetch(pin, Path(scratch), extra_index=extra_index)
            os.replace(wheel, directory / pin.filename)


def _torch(kind: str) -> Pin:
    pin = _read(_TORCH[kind])
    # PyPI's version of the wheel for CUDA has no suffix, but the pin's own version has one.
    version = pin["wheel"].get("version", pin["version"])
    # `==2.13.0` would also accept 2.13.0+cpu.
    requirement = f"torch==={version}"
    return Pin(requirement, pin["wheel"]["filename"], pin["wheel"]["sha256"], _TORCH[kind])


def _pin(row: Mapping[str, Any], source: str) -> Pin:
    requirement = f"{row['distribution']}=={row['version']}"
    return Pin(requirement, row["filename"], row["sha256"], source)


def _required(lock: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the rows of NumPy, of torch's requirements, and of the packages that those require."""

    def walk(key: str) -> Iterator[str]:
        yield key
        for required in lock["packages"][key]["requires"]:
            yield from walk(required)

    keys = {key for start in ("numpy", *lock["torch_requires"]) for key in walk(start)}
    return {key: lock["packages"][key] for key in keys}


def _read(path: str) -> Any:
    return json.loads((_ROOT / path).read_text(encoding="utf-8"))
