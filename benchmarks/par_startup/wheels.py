# SPDX-License-Identifier: Apache-2.0
"""Choose the wheels for all tools: the pinned ones, or those of a different torch release."""

from __future__ import annotations

import json
import pathlib
from typing import Any

_THIRD_PARTY = pathlib.Path(__file__).parents[2] / "third_party"


def requirements(release: str | None = None) -> list[str]:
    """Return pip requirements for NumPy and torch. `release` defaults to the pinned release."""
    numpy = _read("pypi/lock.json")["packages"]["numpy"]["version"]
    return [f"torch=={release or _read('torch/pin.json')['version']}", f"numpy=={numpy}"]


def index() -> str:
    """Return the URL of PyTorch's package index for CPU builds."""
    address: str = _read("torch/pin.json")["wheel"]["extra_index"]
    return address


def compiled_release() -> str:
    """Return the version, including +cpu, of the torch release that --config=static compiles."""
    return f"{_read('torch/source/pin.json')['version']}+cpu"


def _read(path: str) -> Any:
    return json.loads((_THIRD_PARTY / path).read_text())
