# SPDX-License-Identifier: Apache-2.0
"""The PJRT platform behind the device: chosen once, started when the first tensor needs it.

`TORCH_TPU_PLATFORM` (tpu, cuda or cpu) forces one; without it the first of these that this machine
has. `TORCH_TPU_CPU_DEVICES` is the number of devices where the platform is cpu; without it JAX takes
its own settings.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from torch_google.tpu.runtime import heap

if TYPE_CHECKING:
    import jax

_PLATFORMS = ("tpu", "cuda", "cpu")
_NODES = re.compile(r"accel\d+|nvidia\d+")
_FLAG = re.compile(r"""--xla_force_host_platform_device_count=["']?(\d+)""")
_devices: list[jax.Device] = []


def launch() -> int:
    """Start PJRT, and return how many devices the platform has. `_C.start()` calls it once."""
    _devices[:] = _start()
    return len(_devices)


def device(index: int) -> jax.Device:
    """Return JAX's device for `tpu:index`."""
    return _devices[index]


def name() -> str:
    """Return the platform that runs: tpu, cuda (as JAX has it: gpu) or cpu."""
    return str(_devices[0].platform)


def expected_devices() -> int:
    """Return how many devices to expect, without a start: torch asks before it may wait.

    A variable that makes no sense is left for the start to refuse: this runs in `import torch`.
    """
    if os.environ.get("TORCH_TPU_PLATFORM", "") != "cpu":
        nodes = _nodes()
        if nodes:
            return len(nodes)
    text = os.environ.get("TORCH_TPU_CPU_DEVICES")
    if text is None:
        text = _of_jax()
    return int(text) if _is_count(text) else 1


def _of_jax() -> str:
    """Return how many devices the CPU has by JAX's own settings, of which XLA's flag is the last."""
    config = getattr(sys.modules.get("jax"), "config", None)
    told = getattr(config, "jax_num_cpu_devices", os.environ.get("JAX_NUM_CPU_DEVICES", -1))
    if not str(told).startswith("-"):
        return str(told)
    return ["1", *_FLAG.findall(_xla_flags())][-1]


def _xla_flags() -> str:
    """Return XLA's flags: the variable, or the file that it names, without which XLA ends."""
    flags = os.environ.get("XLA_FLAGS", "").strip()
    if flags.startswith("-"):
        return flags
    try:
        return Path(flags).read_text(errors="replace")
    except OSError:
        return ""


def _start() -> list[jax.Device]:
    wanted = _forced()
    try:
        import jax
    except ImportError as error:
        raise ImportError(
            f"tpu: the device runs on JAX, which is not here ({error}). "
            "Install torch_google with what it requires: pip install torch_google"
        ) from error

    jax.config.update("jax_enable_x64", True)
    # Without the variable JAX may have been in use: its clients stay as they are.
    if wanted in (None, "cpu") and "TORCH_TPU_CPU_DEVICES" in os.environ:
        count = _cpu_devices()
        # XLA reads this when the first client of the CPU is made; JAX refuses a change from then on.
        if count != jax.config.jax_num_cpu_devices:
            jax.config.update("jax_num_cpu_devices", count)
    if wanted is None and not _nodes():
        heap.keep()
    with _quiet():
        for platform in _PLATFORMS if wanted is None else (wanted,):
            if platform == "cpu":
                heap.keep()
            try:
                return list(jax.local_devices(backend=platform))
            except RuntimeError as absent:
                reason = absent
    raise RuntimeError(
        f"tpu: TORCH_TPU_PLATFORM={wanted}: JAX cannot start it: {reason}. "
        "Install its PJRT plugin, or unset the variable to take what there is"
    ) from reason


def _nodes() -> list[str]:
    """Return the names of what looks like accelerators."""
    nodes = [node for node in _entries("/dev") if _NODES.fullmatch(node)]
    return nodes + [node for node in _entries("/dev/vfio") if node.isdigit()]


@contextmanager
def _quiet() -> Iterator[None]:
    """Let JAX not tell of each platform that is not here: that is what was to be found out."""
    logger = logging.getLogger("jax._src.xla_bridge")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


def _forced() -> str | None:
    wanted = os.environ.get("TORCH_TPU_PLATFORM") or None
    if wanted not in (None, *_PLATFORMS):
        raise ValueError(f"tpu: TORCH_TPU_PLATFORM={wanted}; use one of {', '.join(_PLATFORMS)}")
    return wanted


def _cpu_devices() -> int:
    text = os.environ.get("TORCH_TPU_CPU_DEVICES", "1")
    if not _is_count(text):
        raise ValueError(f"tpu: TORCH_TPU_CPU_DEVICES={text}; use a number from 1 to 64")
    return int(text)


def _is_count(text: str) -> bool:
    return text.isdigit() and 1 <= int(text) <= 64


def _entries(directory: str) -> list[str]:
    path = Path(directory)
    return sorted(os.listdir(path)) if path.is_dir() else []
