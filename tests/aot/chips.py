# SPDX-License-Identifier: Apache-2.0
"""The chips that programs are compiled for, described without one and without a driver."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jax

# The platform that programs for a chip are lowered for.
PLATFORMS = {"v5e": "tpu", "v6e": "tpu", "h100": "cuda"}


def device(chip: str) -> jax.Device:
    """Return the described device. Raises RuntimeError if its compiler is not installed."""
    # Imported here, because JAX reads the environment when it is imported.
    from jax.experimental import topologies

    if PLATFORMS[chip] == "tpu":
        from torch_google.tpu.runtime.topology import topology

        return topology(chip).devices[0]
    # JAX would look for a driver and NVIDIA's libraries, which only a running device needs.
    os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"
    config = Path(__file__).with_name(f"{chip}.txtpb").read_text(encoding="utf-8")
    described = topologies.get_topology_desc(
        "", platform=PLATFORMS[chip], target_config=config, topology="1x1x1"
    )
    device: jax.Device = described.devices[0]
    return device
