# SPDX-License-Identifier: Apache-2.0
"""Peak performance and usable memory of TPU chips."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30
SOURCE = (
    "Peaks: Cloud TPU's documentation, pages 'TPU v4', 'TPU v5e', 'TPU v5p', 'TPU v6e' and 'TPU7x'. "
    "Usable HBM: the limit in libtpu 0.0.42.1's own out-of-memory error"
)


@dataclass(frozen=True)
class Chip:
    """The peak performance of one chip, which its JAX devices share equally.

    `flops` is the bfloat16 rate in operations per second. `bandwidth` is the HBM bandwidth, and
    `links` is the total bandwidth to other chips in one direction, both in bytes per second.
    `usable` is the HBM that one device can use, in bytes.
    """

    flops: float
    bandwidth: float
    links: float
    usable: float
    devices: int = 1

    @property
    def device_flops(self) -> float:
        """Return one device's peak bfloat16 rate in operations per second."""
        return self.flops / self.devices

    @property
    def device_bandwidth(self) -> float:
        """Return one device's HBM bandwidth in bytes per second."""
        return self.bandwidth / self.devices

    @property
    def device_links(self) -> float:
        """Return one device's share of the interconnect bandwidth in bytes per second."""
        return self.links / self.devices


# Newer pages of the Cloud TPU documentation list a chip's interconnect bandwidth as the sum of both
# directions (v5e 400 GB/s, v5p 1200, v6e 800, tpu7x 1200), so `links` is half of that. The older
# page for v4 lists 2400 Gbit/s in one direction.
CHIPS = {
    "v4": Chip(275e12, 1228e9, 300e9, 15.25 * GIB, devices=2),
    "v5e": Chip(197e12, 819e9, 200e9, 15.75 * GIB),
    "v5p": Chip(459e12, 2765e9, 600e9, 95.74 * GIB),
    "v6e": Chip(918e12, 1638e9, 400e9, 31.25 * GIB),
    "tpu7x": Chip(2307e12, 7380e9, 600e9, 94.75 * GIB, devices=2),
}

# The number of bfloat16 passes in XLA's float32 matmul, for each of torch.tpu's precisions.
PASSES = {"default": 1, "high": 3, "highest": 6}


def chip(generation: str) -> Chip:
    """Return the peak performance of a TPU generation. Raises ValueError if it is unknown."""
    if generation not in CHIPS:
        raise ValueError(
            f"tpu: estimate: no peak numbers for TPU {generation!r}; there are those of "
            f"{', '.join(CHIPS)}. Add a row to torch_google/tpu/estimate/chips.py"
        )
    return CHIPS[generation]
