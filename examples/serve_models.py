# SPDX-License-Identifier: Apache-2.0
"""Models that serve.py can serve. Only its worker processes import this module, and thus torch."""

from __future__ import annotations

from torch import nn

from examples import model
from torch_google.serving import TensorSpec


def digits() -> tuple[nn.Module, list[TensorSpec]]:
    """Return the network of train.py, and the spec of its input: pixels in 0..1 (0 is white)."""
    return model.DigitNet(), [TensorSpec.of("image", "float32", (1, 8, 8))]
