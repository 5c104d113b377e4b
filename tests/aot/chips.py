# SPDX-License-Identifier: Apache-2.0
"""The chips that programs are compiled for. Compiling needs only their descriptions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jax

# The platform of each chip. Programs for a chip are lowered for its platform.
PLATFORMS = {"v5e": "tpu", "v6e": "tpu", "h100": "cuda"}


def device(chip: str) -> jax.Device:
    """Return a device for compiling only. Raises RuntimeError if its compiler is missing."""
    # Import JAX lazily, because importing it reads environment variables.
    from jax.experimental import topologies

    if PLATFORMS[chip] == "tpu":
        from torch_google.tpu.runtime.topology import topology

        return topology(chip).devices[0]
    # Keep JAX from checking the driver and NVIDIA's libraries, which compiling does not need.
    os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"
    config = Path(__file__).with_name(f"{chip}.txtpb").read_text(encoding="utf-8")
    described = topologies.get_topology_desc(
        "", platform=PLATFORMS[chip], target_config=config, topology="1x1x1"
    )
    device: jax.Device = described.devices[0]
    return device
