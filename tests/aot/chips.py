# SPDX-License-Identifier: Apache-2.0
"""The chips that programs are compiled for, from descriptions: no chip or driver is needed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jax

# For each chip, the platform that its programs are lowered for.
PLATFORMS = {"v5e": "tpu", "v6e": "tpu", "h100": "cuda"}


def device(chip: str) -> jax.Device:
    """Return a compile-only device. Raises RuntimeError if its compiler is not installed."""
    # Import JAX here, because it reads the environment when it is imported.
    from jax.experimental import topologies

    if PLATFORMS[chip] == "tpu":
        from torch_google.tpu.runtime.topology import topology

        return topology(chip).devices[0]
    # Without this variable, JAX looks for a driver and NVIDIA's libraries, which compiling does not
    # need.
    os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"
    config = Path(__file__).with_name(f"{chip}.txtpb").read_text(encoding="utf-8")
    described = topologies.get_topology_desc(
        "", platform=PLATFORMS[chip], target_config=config, topology="1x1x1"
    )
    device: jax.Device = described.devices[0]
    return device
