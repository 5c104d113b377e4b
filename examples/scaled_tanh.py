# SPDX-License-Identifier: Apache-2.0
"""A torch operator with a CUDA kernel: scale * tanh(x).

The C++ code contains the kernel and the operator's implementation for CPU tensors. This module adds
the implementation for CUDA tensors, which needs torch's current stream, and the functions that
autograd and torch.compile need.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

from examples import _scaled_tanh as _scaled_tanh  # The import registers the operator.

_NAME = "torch_google_examples::scaled_tanh"


def scaled_tanh(x: torch.Tensor, scale: float) -> torch.Tensor:
    """Return scale * tanh(x). On cuda, x must be float32, and one kernel computes the result."""
    result: torch.Tensor = torch.ops.torch_google_examples.scaled_tanh(x, scale)
    return result


@torch.library.impl(_NAME, "CUDA")
def _on_cuda(x: torch.Tensor, scale: float) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    # Restore the current device afterwards, because the launch changes it.
    with torch.cuda.device(x.device):
        stream = torch.cuda.current_stream().cuda_stream
        torch.ops.torch_google_examples.scaled_tanh_launch(x, y, scale, stream)
    return y


@torch.library.register_fake(_NAME)
def _fake(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _keep(ctx: Any, inputs: tuple[torch.Tensor, float], output: torch.Tensor) -> None:
    x, ctx.scale = inputs
    ctx.save_for_backward(x)


def _gradient(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
    (x,) = ctx.saved_tensors
    return gradient * ctx.scale * (1 - torch.tanh(x) ** 2), None


torch.library.register_autograd(_NAME, _gradient, setup_context=_keep)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", default=default)
    device = parser.parse_args().device
    try:
        x = torch.linspace(-3, 3, 7, device=device)
        x.tolist()
    # The error for an unusable device depends on the backend. A build of torch without CUDA raises
    # AssertionError. If a device needs a module that is missing, torch raises ImportError.
    except (RuntimeError, AssertionError, ImportError) as problem:
        reason = str(problem).splitlines()[0].split(". ")[0]
        parser.error(f"--device={device}: torch cannot compute there: {reason}")
    y = scaled_tanh(x, 2.0)
    error = (y - 2.0 * torch.tanh(x)).abs().max().item()
    print(f"scaled_tanh on {y.device}: {[round(value, 4) for value in y.tolist()]}")
    print(f"largest difference from torch's own operators: {error:.1e}")


if __name__ == "__main__":
    main()
