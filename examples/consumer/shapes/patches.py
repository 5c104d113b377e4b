# SPDX-License-Identifier: Apache-2.0
"""Split images into patches."""

import einops
import torch


def patches(pictures: torch.Tensor, *, size: int) -> torch.Tensor:
    """Return the `size` x `size` patches of `pictures` (batch, height, width), one per row."""
    return einops.rearrange(pictures, "b (h p) (w q) -> (b h w) (p q)", p=size, q=size)
