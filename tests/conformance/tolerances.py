# SPDX-License-Identifier: Apache-2.0
"""The tolerances for results: torch's defaults, op_db's overrides, and our own, with reasons."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.testing._comparison import default_tolerances
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.opinfo.core import DecorateInfo

from tests.conformance.samples import name
from torch_google.tpu.runtime.precision import roundoff

# The columns are patterns for the operator, dtype and check, the relative and absolute tolerances,
# and the reason.
TABLE: tuple[tuple[str, str, str, float, float, str], ...] = (
    ("erfinv", "float32", "backward", 1e-5, 0.0, "exp(y**2): 2*y**2 times the error of y"),
    ("special.hermite_polynomial_he", "float32", "*", 1e-5, 1e-3, "terms of about 1000 cancel"),
)

# Operators that multiply, each with a multiplier and a reason. The tolerance, relative to the
# largest element of a result, is the multiplier times the error of rounding an operand. A CPU does
# not round the operands of a multiplication. On other platforms,
# `torch_google.tpu.runtime.precision.roundoff` returns this error, which depends on
# torch.tpu.precision.
PRODUCTS: dict[str, tuple[float, str]] = {
    "*matmul*": (8.0, "a sum of products"),
    "*mm": (8.0, "a sum of products"),
    "addmv": (8.0, "a sum of products"),
    "baddbmm": (8.0, "a sum of products"),
    "addbmm": (8.0, "a sum of products"),
    "addmm*": (8.0, "a sum of products"),
    "cdist": (32.0, "a root of a difference of products"),
    "corrcoef": (32.0, "products of centered values, divided by their norms"),
    "cov": (8.0, "products of centered values"),
    "dot": (8.0, "a sum of products"),
    "einsum": (8.0, "a sum of products"),
    "inner": (8.0, "a sum of products"),
    "linalg.*": (64.0, "algorithms of many products"),
    "matrix_exp": (64.0, "a polynomial of matrices"),
    "mv": (8.0, "a sum of products"),
    "nn.functional.*attention*": (32.0, "a product of a softmax of products"),
    "nn.functional.bilinear": (16.0, "products of three factors"),
    "nn.functional.conv*": (8.0, "a sum of products"),
    "nn.functional.linear": (8.0, "a sum of products"),
    "tensordot": (8.0, "a sum of products"),
    "vdot": (8.0, "a sum of products"),
}
_ROUNDED = frozenset({torch.float32, torch.complex64})
_FLOAT32 = 2.0**-24

# Operators whose results are sums of many terms that cancel. The tolerance is relative to the
# largest element, as in the error bounds for these algorithms.
NORMWISE: dict[str, str] = {
    "matrix_exp": "a product of matrices with elements of any size",
    "nn.functional.avg_pool2d": "sums of windows that overlap, which cancel",
    "nn.functional.conv_transpose3d": "sums of many products, which cancel",
}

# Operators whose gradients are sums of many terms that cancel.
NORMWISE_GRADIENTS: dict[str, str] = {
    "grid_sampler_2d": "sums over nearby points, which cancel",
    "grid_sampler_3d": "sums over nearby points, which cancel",
    "nn.functional.adaptive_avg_pool3d": "sums of windows that overlap, which cancel",
    "nn.functional.avg_pool1d": "sums of windows that overlap, which cancel",
    "nn.functional.bilinear": "sums of products, which cancel",
    "nn.functional.embedding_bag": "sums over the uses of a row, which cancel",
    "nn.functional.grid_sample": "sums over nearby points, which cancel",
    "nn.functional.interpolate.area": "sums of windows that overlap, which cancel",
    "nn.functional.max_pool2d": "sums over the windows that an element wins, which cancel",
    "nn.functional.max_pool3d": "sums over the windows that an element wins, which cancel",
    "nn.functional.unfold": "sums of windows that overlap, which cancel",
    "special.xlog1py": "sums over broadcast dimensions, which cancel",
}

# Operators that the CPU computes inaccurately even in double precision. Their exact results are
# computed by op_db's `ref` instead.
REFERRED: dict[str, str] = {
    "special.bessel_j0": "the CPU is off by 2e-7, SciPy is not",
    "special.bessel_y1": "the CPU is off by 2e-7, SciPy is not",
}

# torch's test classes that compare an operator with another implementation. Only their tolerance
# overrides apply here.
_TESTS = frozenset(
    {
        "TestBinaryUfuncsDevice",
        "TestCommon",
        "TestConsistency",
        "TestDecomp",
        "TestInductorOpInfo",
        "TestUnaryUfuncs",
    }
)


@dataclass(frozen=True)
class Tolerance:
    """Relative and absolute tolerances, by the result's dtype. Integers must be equal."""

    least: tuple[float, float] = (0.0, 0.0)
    normwise: bool = False
    by_dtype: dict[torch.dtype, tuple[float, float]] = field(default_factory=dict)

    def of(self, dtype: torch.dtype) -> tuple[float, float]:
        if not (dtype.is_floating_point or dtype.is_complex):
            return 0.0, 0.0
        known = [default_tolerances(dtype), self.by_dtype.get(dtype, self.least), self.least]
        return max(k[0] for k in known), max(k[1] for k in known)


def tolerance(
    op: Any,
    dtype: torch.dtype,
    check: str,
    *,
    platform: str = "cpu",
    precision: str = "default",
) -> Tolerance:
    """Return the tolerance for checking an operator on samples of `dtype`.

    On a platform that rounds the operands of multiplications, operators in PRODUCTS get larger
    tolerances.
    """
    overrides: dict[torch.dtype, tuple[float, float]] = {}
    for decorator in op.decorators:
        if isinstance(decorator, DecorateInfo) and decorator.cls_name in _TESTS:
            for override in decorator.decorators:
                if isinstance(override, toleranceOverride):
                    for kind, tol in override.d.items():
                        relative, absolute = overrides.get(kind, (0.0, 0.0))
                        overrides[kind] = max(relative, tol.rtol), max(absolute, tol.atol)
    least = (0.0, 0.0)
    for pattern, dtypes, checks, relative, absolute, _ in TABLE:
        if (
            fnmatch.fnmatchcase(name(op), pattern)
            and fnmatch.fnmatchcase(str(dtype).removeprefix("torch."), dtypes)
            and fnmatch.fnmatchcase(check, checks)
        ):
            least = max(least[0], relative), max(least[1], absolute)
    rounded = _rounded(name(op), dtype, roundoff(platform, precision))
    least = max(least[0], rounded), least[1]
    sums = NORMWISE if check != "backward" else NORMWISE | NORMWISE_GRADIENTS
    return Tolerance(least, name(op) in sums or rounded > 0, overrides)


def _rounded(operator: str, dtype: torch.dtype, error: float) -> float:
    """Return the relative error that an operator's results have because its operands are rounded.

    Return 0 if they are not rounded.
    """
    if dtype not in _ROUNDED or error <= _FLOAT32:
        return 0.0
    factors = [f for pattern, (f, _) in PRODUCTS.items() if fnmatch.fnmatchcase(operator, pattern)]
    return error * max(factors, default=0.0)
