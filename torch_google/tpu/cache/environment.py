# SPDX-License-Identifier: Apache-2.0
"""Everything that a compiled program depends on besides its own code."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
from collections.abc import Iterator, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import jax
import jaxlib
import torch

# Environment variables with flags for XLA or for a PJRT plugin.
_VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "TF_XLA_FLAGS", "PJRT_NPROC")
# The fields of /proc/cpuinfo that determine which instructions XLA emits for this host.
_CPU_FIELDS = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags", "Features")


def environment(devices: Sequence[jax.Device]) -> str:
    """Return a string that is equal in two processes only if they can share executables.

    The string describes the host's processor only if programs run on that processor.
    """
    return "\n".join(
        (
            _software(),
            *([_host()] if devices[0].client.platform == "cpu" else []),
            *(f"{name}={os.environ.get(name, '')}" for name in _VARIABLES),
            f"{devices[0].client.platform} {devices[0].client.platform_version}",
            *(
                # A program for one CPU device can be loaded on any CPU device, so leave out the
                # device's id.
                device.device_kind
                if on_any_device(devices)
                else f"{device.id} {device.device_kind}"
                for device in devices
            ),
            # Include the device count, because runtime/platform.py starts more threads if there are
            # several devices.
            f"of {devices[0].client.device_count()}",
            f"precision {jax.config.jax_default_matmul_precision}",
            f"random {jax.config.jax_default_prng_impl} {jax.config.jax_threefry_partitionable}",
        )
    )


def on_any_device(devices: Sequence[jax.Device]) -> bool:
    """Return whether a program for `devices` can also be loaded on other devices."""
    return len(devices) == 1 and devices[0].client.platform == "cpu"


@functools.cache
def _software() -> str:
    return (
        f"torch {torch.__version__} {torch.version.git_version}\n"
        f"jax {jax.__version__} jaxlib {jaxlib.__version__}\n"
        f"sources {_sources()}"
    )


def _sources() -> str:
    """Return a digest of this package's Python sources, because they contain the lowerings."""
    digest = hashlib.sha256()
    for name, content in _modules(files("torch_google").joinpath("tpu"), ""):
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _modules(directory: Traversable, below: str) -> Iterator[tuple[str, bytes]]:
    for child in sorted(directory.iterdir(), key=lambda child: child.name):
        name = f"{below}/{child.name}"
        if child.is_dir():
            yield from _modules(child, name)
        elif name.endswith(".py") and not name.endswith("_test.py"):
            yield name, child.read_bytes()


@functools.cache
def _host() -> str:
    lines: list[str] = []
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if not line.strip():
                break  # the fields of the next processor follow
            if line.partition(":")[0].strip() in _CPU_FIELDS:
                lines.append(line)
    # Include the number of usable CPUs, because XLA divides work among that many threads.
    return "\n".join([platform.machine(), str(len(os.sched_getaffinity(0))), *sorted(lines)])
