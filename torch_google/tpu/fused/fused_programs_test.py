# SPDX-License-Identifier: Apache-2.0
"""Random views, writes, reads and deletions give the same results as on the CPU in every mode."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import torch
from hypothesis import HealthCheck, given, settings

from tools.par.testing.budget import examples

# The operations that a step may apply to the tensors a and b and a scalar. All tensors are 4 x 4.
STEPS: dict[str, Any] = {
    "add": lambda a, b, n: a + b,
    "mul": lambda a, b, n: a * (n / 8),
    "tanh": lambda a, b, n: torch.tanh(a),
    "matmul": lambda a, b, n: (a @ b).clamp(-9, 9),
    "where": lambda a, b, n: torch.where(a > b, a, b),
    "transpose": lambda a, b, n: a.t(),
    "rows": lambda a, b, n: a.view_as(a)[n % 4].expand(4, 4) if a.is_contiguous() else a,
    "add_": lambda a, b, n: a.add_(b, alpha=n / 4) if writable(a, b) else a,
    "mul_row": lambda a, b, n: (a[n % 4].mul_(n / 8), a)[1] if writable(a, a) else a,
    "fill_column": lambda a, b, n: (a[:, n % 4].fill_(n), a)[1] if writable(a, a) else a,
    "copy_": lambda a, b, n: a.copy_(b) if writable(a, b) else a,
    "zero_": lambda a, b, n: a.zero_() if writable(a, a) else a,
    "detach": lambda a, b, n: a.detach(),
    "clone": lambda a, b, n: a.clone(),
}
Step = tuple[str, int, int, int]


def writable(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether `a` has no internal overlap and `b` does not partly overlap `a`."""
    if 0 in a.stride():
        return False
    apart = a.untyped_storage()._cdata != b.untyped_storage()._cdata
    return apart or a.stride() == b.stride()


def run(steps: list[Step], device: str) -> list[list[float]]:
    base = torch.arange(16.0).reshape(4, 4) / 16
    tensors = [base.to(device), (base - 1).to(device), (base * base).to(device)]
    values = []
    for name, first, second, number in steps:
        a, b = tensors[first % len(tensors)], tensors[second % len(tensors)]
        if name == "read":
            values.append(a.flatten().tolist())
        elif name == "drop":
            if len(tensors) > 2:
                del tensors[first % len(tensors)]
        elif name == "number":
            a = a * a.sum().clamp(-1, 1).item()
            tensors.append(a)
        else:
            tensors.append(STEPS[name](a, b, number))
        del a, b
    return values + [tensor.flatten().tolist() for tensor in tensors]


@settings(
    max_examples=examples(40, part=10), deadline=None, suppress_health_check=list(HealthCheck)
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*STEPS, "read", "drop", "number"]),
            st.integers(0, 9),
            st.integers(0, 9),
            st.integers(0, 9),
        ),
        min_size=4,
        max_size=14,
    )
)
def test_programs_give_the_same_in_every_mode(steps: list[Step]) -> None:
    expected = torch.tensor(run(steps, "cpu"))
    for mode in ("debug", "strict", "fused", "fused"):
        with torch.tpu.eager_mode(mode):
            actual = torch.tensor(run(steps, "tpu"))
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
        # Wait, so that the second run in fused mode uses compiled programs.
        torch.tpu.wait_for_compiles()
