# SPDX-License-Identifier: Apache-2.0
"""Models that serve.py can serve. Only its workers import this module, and with it torch."""

from __future__ import annotations

from torch import nn

from examples import model
from torch_google.serving import TensorSpec


def digits() -> tuple[nn.Module, list[TensorSpec]]:
    """Return the network of train.py, and its input: one image in 0..1, where 0 is paper."""
    return model.DigitNet(), [TensorSpec.of("image", "float32", (1, 8, 8))]
