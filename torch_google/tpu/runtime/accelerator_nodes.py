# SPDX-License-Identifier: Apache-2.0
"""Counts this machine's accelerators by their device files, without initializing any of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")
_GPU = re.compile(r"nvidia\d+")
_CHIP = re.compile(r"accel\d+")
_GOOGLE = "0x1ae0"
# PCI device IDs of the TPUs whose chips have two cores: TPU v2 and v3, and TPU7x. Each core is a
# device. On all other TPUs, a chip is one device.
_TWO_DEVICES = frozenset({"0x0027", "0x0076"})


def exist() -> bool:
    """Return whether this machine has any device files for TPUs or GPUs."""
    return bool(_chips() or _gpus())


def count(platform: str | None) -> int:
    """Return the number of devices of a platform, "tpu" or "cuda".

    If `platform` is None, count the TPUs, or the GPUs if there are no TPUs. `TPU_VISIBLE_CHIPS`
    limits the chips that libtpu uses.
    """
    chips = len(_chips()) if platform in (None, "tpu") else 0
    if chips:
        visible = os.environ.get("TPU_VISIBLE_CHIPS", "")
        if re.fullmatch(r"\d+(,\d+)*", visible):
            chips = min(chips, len(set(visible.split(","))))
        return chips * (2 if _TWO_DEVICES & set(_models()) else 1)
    return len(_gpus()) if platform in (None, "cuda") else 0


def _chips() -> list[str]:
    chips = [name for name in _entries("dev") if _CHIP.fullmatch(name)]
    return chips + [name for name in _entries("dev/vfio") if name.isdigit()]


def _gpus() -> list[str]:
    return [name for name in _entries("dev") if _GPU.fullmatch(name)]


def _models() -> Iterator[str]:
    """Yield the PCI device IDs of Google's devices."""
    devices = _ROOT / "sys/bus/pci/devices"
    for name in _entries("sys/bus/pci/devices"):
        if _text(devices / name / "vendor") == _GOOGLE:
            yield _text(devices / name / "device")


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _entries(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(_ROOT / directory))
    except OSError:
        return []
