# SPDX-License-Identifier: Apache-2.0
"""The tpu device's PJRT platform, which is chosen once, when the first tensor is created.

`TORCH_TPU_PLATFORM` (tpu, cuda or cpu) selects the platform. The default is the first of the three
that the machine supports. `TORCH_TPU_CPU_DEVICES` sets the number of devices on the `cpu` platform.
Its default comes from JAX's own settings.
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

from torch_google.tpu.runtime import accelerator_nodes, heap, processes
from torch_google.tpu.runtime.jax_import import import_jax
from torch_google.tpu.target_platform import PLATFORMS

if TYPE_CHECKING:
    import jax

_FLAG = re.compile(r"""--xla_force_host_platform_device_count=["']?(\d+)""")
_THREADS = "PJRT_NPROC"
# The maximum number of devices that the C++ code supports (guard.h).
_MOST = 64
_devices: list[jax.Device] = []


def launch() -> int:
    """Initialize PJRT and return the number of tpu devices. Only `_C.start()` calls this, once.

    Devices beyond the first 64 cannot store tensors of their own, but can be part of a mesh.
    """
    _devices[:] = _start()
    return min(len(_devices), _MOST)


def count() -> int:
    """Return the number of JAX's local devices, which may exceed the number of tpu devices."""
    return len(_devices)


def device(index: int) -> jax.Device:
    """Return JAX's device for `tpu:index`."""
    return _devices[index]


def name() -> str:
    """Return the name of the platform in use: tpu, gpu (JAX's name for cuda) or cpu."""
    return str(_devices[0].platform)


def expected_devices() -> int:
    """Return the expected number of devices without initializing PJRT.

    torch queries the number during `import torch`, so invalid environment variables are ignored
    here. Initializing PJRT raises an error for them.
    """
    forced = os.environ.get("TORCH_TPU_PLATFORM") or None
    accelerators = accelerator_nodes.count(forced if forced in PLATFORMS else None)
    if accelerators:
        return accelerators
    text = os.environ.get("TORCH_TPU_CPU_DEVICES")
    if text is None:
        text = _of_jax()
    return min(int(text), _MOST) if text.isdigit() and int(text) else 1


def _of_jax() -> str:
    """Return JAX's setting for the number of CPU devices, from XLA_FLAGS only as a last resort."""
    config = getattr(sys.modules.get("jax"), "config", None)
    count = getattr(config, "jax_num_cpu_devices", os.environ.get("JAX_NUM_CPU_DEVICES", -1))
    if not str(count).startswith("-"):
        return str(count)
    return ["1", *_FLAG.findall(_xla_flags())][-1]


def _xla_flags() -> str:
    """Return the value of XLA_FLAGS, or the contents of the file that it names."""
    flags = os.environ.get("XLA_FLAGS", "").strip()
    if flags.startswith("-"):
        return flags
    try:
        return Path(flags).read_text(errors="replace")
    except OSError:
        return ""


def _start() -> list[jax.Device]:
    forced = _forced()
    try:
        jax = import_jax()
    except ImportError as error:
        raise ImportError(
            f"tpu: the device runs on JAX, which is not installed ({error}). "
            "Install torch_google with its dependencies: pip install torch_google"
        ) from error

    jax.config.update("jax_enable_x64", True)
    # If the variable is not set, leave JAX's setting alone, because JAX may already be in use.
    if forced in (None, "cpu") and "TORCH_TPU_CPU_DEVICES" in os.environ:
        count = _cpu_devices()
        # JAX reads this setting when it creates the first CPU client, and rejects later changes.
        if count != jax.config.jax_num_cpu_devices:
            jax.config.update("jax_num_cpu_devices", count)
    processes.join()
    if forced is None and not accelerator_nodes.exist():
        heap.keep()
    with _quiet() as plugin_errors:
        for platform in PLATFORMS if forced is None else (forced,):
            if platform == "cpu":
                heap.keep()
            try:
                with _threads_for_all_devices():
                    return list(jax.local_devices(backend=platform))
            except RuntimeError as absent:
                reason = absent
    if plugin_errors:
        advice = f"A plugin failed ({'; '.join(plugin_errors)}): repair it"
    else:
        advice = "Install its PJRT plugin"
    raise RuntimeError(
        f"tpu: TORCH_TPU_PLATFORM={forced}: JAX cannot start it: {reason}. "
        f"{advice}, or unset the variable to use the first available platform"
    ) from reason


@contextmanager
def _threads_for_all_devices() -> Iterator[None]:
    """Give PJRT's CPU client enough threads for several devices, unless PJRT_NPROC is already set.

    A sharded program needs two threads per device: one runs the device's partition, which waits for
    the other partitions, and one launches it. A thread that launches programs blocks while 32 of
    them are pending. With the default of one thread per core, all threads could wait forever. PJRT
    reads the number of threads from PJRT_NPROC when it creates the client.
    """
    devices = expected_devices()
    if devices == 1 or _THREADS in os.environ:
        yield
        return
    # Allow two Python threads to launch programs concurrently: this needs four threads per device.
    os.environ[_THREADS] = str(max(4 * devices, len(os.sched_getaffinity(0))))
    try:
        yield
    finally:
        del os.environ[_THREADS]


@contextmanager
def _quiet() -> Iterator[list[str]]:
    """Suppress JAX's log messages about missing platforms, which are expected here.

    JAX logs a traceback if it cannot load a PJRT plugin, for example a plugin for GPUs on a machine
    without a driver. Here, it becomes one line. The list receives the errors of the plugins.
    """
    logger = logging.getLogger("jax._src.xla_bridge")
    before = logger.level
    errors: list[str] = []

    def shorten(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            errors.append(" ".join(str(error).split()))
            record.msg, record.args = f"{record.getMessage()}: {errors[-1]}", ()
            record.exc_info = None
        return True

    logger.addFilter(shorten)
    logger.setLevel(logging.WARNING)
    try:
        yield errors
    finally:
        logger.setLevel(before)
        logger.removeFilter(shorten)


def _forced() -> str | None:
    name = os.environ.get("TORCH_TPU_PLATFORM") or None
    if name not in (None, *PLATFORMS):
        raise ValueError(f"tpu: TORCH_TPU_PLATFORM={name}; use one of {', '.join(PLATFORMS)}")
    return name


def _cpu_devices() -> int:
    text = os.environ.get("TORCH_TPU_CPU_DEVICES", "1")
    if not _is_count(text):
        raise ValueError(f"tpu: TORCH_TPU_CPU_DEVICES={text}; use a number from 1 to 64")
    return int(text)


def _is_count(text: str) -> bool:
    return text.isdigit() and 1 <= int(text) <= _MOST
