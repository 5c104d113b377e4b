# SPDX-License-Identifier: Apache-2.0
"""Describes TPUs, so that programs can be compiled for them on machines without TPUs.

The compiler is part of the `libtpu` wheel, and needs neither a TPU nor a network. Programs can be
compiled for the devices of a topology, but these devices can neither run programs nor store arrays.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, requires

import jax
from jax.experimental import topologies

# The number of dimensions of the network between the chips, by TPU generation.
GENERATIONS = {"v2": 2, "v3": 2, "v4": 3, "v5e": 2, "v5p": 3, "v6e": 2, "tpu7x": 3}
# The dimensions, in chips, of the block that one host controls. A topology may be smaller.
_HOST = (2, 2, 1)
# libtpu reads these variables when it is loaded. Without them, it would query Google Cloud's
# metadata server and look for other hosts, and only one process could load it.
_ENVIRONMENT = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_MIN_LOG_LEVEL": "3",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_STDERR_LOG_LEVEL": "3",
    "TPU_WORKER_HOSTNAMES": "localhost",
}


@dataclass(frozen=True)
class Topology:
    """A slice of TPUs. `devices` are JAX's compile-only devices for the slice.

    A v2, v3, v4 or tpu7x chip has two devices; any other chip has one.
    """

    generation: str
    shape: tuple[int, ...]
    devices: tuple[jax.Device, ...]

    @property
    def name(self) -> str:
        """Return the name to pass to `topology()`, such as `v5e:4x4`."""
        return f"{self.generation}:{'x'.join(map(str, self.shape))}"

    @property
    def chips(self) -> int:
        """Return the number of chips."""
        return math.prod(self.shape)


@lru_cache
def topology(name: str) -> Topology:
    """Return a topology by name, such as `v5e:4x4` or `v5p:2x2x4`. `v5e` alone means one chip.

    Raises ValueError if the topology does not exist, and RuntimeError if libtpu is not installed.
    """
    generation, shape = _parse(name)
    bounds = [min(size, most) for size, most in zip((*shape, 1, 1), _HOST, strict=False)]
    text = f"{generation}:{'x'.join(map(str, shape))}"
    _require_libtpu()
    try:
        with _environment():
            described = topologies.get_topology_desc(
                text, platform="tpu", chips_per_host_bounds=bounds
            )
    except jax.errors.JaxRuntimeError as error:
        raise ValueError(f"tpu: topology {name!r}: {error}. {_names(generation)}") from error
    return Topology(generation, shape, tuple(described.devices))


def _parse(name: str) -> tuple[str, tuple[int, ...]]:
    generation, _, size = name.partition(":")
    dimensions = GENERATIONS.get(generation)
    if dimensions is None:
        raise ValueError(
            f"tpu: topology {name!r}: no TPU {generation!r}. The TPUs are {', '.join(GENERATIONS)}; "
            "a topology is a TPU and its chips, such as v5e:4x4 or v5p:2x2x4"
        )
    size = size or "x".join("1" * dimensions)
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)+", size) or size.count("x") >= dimensions:
        raise ValueError(f"tpu: topology {name!r}: no size {size!r}. {_names(generation)}")
    shape = tuple(map(int, size.split("x")))
    return generation, (*shape, *(1,) * (dimensions - len(shape)))


def _names(generation: str) -> str:
    sizes = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
    cubes = ("1x1x1", "2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8")
    usual = sizes if GENERATIONS[generation] == 2 else cubes
    return f"Use for example {', '.join(f'{generation}:{size}' for size in usual)}"


def _require_libtpu() -> None:
    from jax._src.cloud_tpu_init import get_tpu_library_path

    if get_tpu_library_path() is None:
        raise RuntimeError(
            "tpu: the compiler for TPUs is not installed. It needs no TPU: "
            f"pip install '{_requirement()}'"
        )


def _requirement() -> str:
    """Return the installed JAX's requirement for libtpu, in pip's syntax."""
    try:
        lines = requires("jax") or []
    except PackageNotFoundError:
        lines = []  # this program was packaged without the metadata of its packages
    pins = [re.match(r"libtpu\s*([=<>!~][^;]*)", line) for line in lines if "tpu" in line]
    return next(("libtpu" + pin[1].strip().strip("()") for pin in pins if pin), "libtpu")


@contextmanager
def _environment() -> Iterator[None]:
    """Set libtpu's variables on entry and unset them on exit, except those that the user set."""
    missing = [name for name in _ENVIRONMENT if name not in os.environ]
    os.environ.update({name: _ENVIRONMENT[name] for name in missing})
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)
