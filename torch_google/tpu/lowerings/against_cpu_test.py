# SPDX-License-Identifier: Apache-2.0

import pytest
import torch

from torch_google.tpu.lowerings.against_cpu import check

aten = torch.ops.aten


def test_a_result_that_is_more_exact_than_the_cpu_passes() -> None:
    def rounded_twice(c: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y + c

    # The product is 3.0234375, which bfloat16 rounds to 3.03125. Subtracting 3 leaves 0.03125
    # instead of 0.0234375: a third too much.
    x, y = torch.tensor([1.0078125]).bfloat16(), torch.tensor([3.0]).bfloat16()
    check(aten.addcmul.default, -y, x, y, expect=rounded_twice)


def test_a_result_that_is_less_exact_than_the_cpu_fails() -> None:
    x = torch.tensor([1.0, 5.0]).bfloat16()
    with pytest.raises(AssertionError, match="not close"):
        check(aten.mul.Tensor, x, x, expect=lambda x, y: x * y * 1.0625)
