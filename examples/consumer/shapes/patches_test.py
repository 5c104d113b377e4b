# SPDX-License-Identifier: Apache-2.0

import pytest
import torch

from shapes.patches import patches


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_a_picture_becomes_patches(device: str) -> None:
    picture = torch.arange(16, device=device).reshape(1, 4, 4)
    assert patches(picture, size=2).tolist()[0] == [0, 1, 4, 5]
