# SPDX-License-Identifier: Apache-2.0
"""The precision of float32 matmuls and convolutions on devices that round their inputs.

A TPU multiplies in bfloat16, so a float32 matmul takes one bfloat16 pass at "default", three at
"high" and six at "highest". A GPU multiplies in TF32 at "default" and "high", if it has TF32. On a
CPU, every level gives full float32 precision.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

from torch_google.tpu import _C
from torch_google.tpu.runtime.scoped_setting import ScopedSetting

Precision = Literal["default", "high", "highest"]

# A level's index in this tuple represents the level in C++ and in program keys.
_NAMES = ("default", "high", "highest")

# The unit roundoff of the factors of float32 products, at each level: 2**-p for p significant bits.
# bfloat16 has 8 bits, two bfloat16 parts have 16, three have 24, TF32 has 11, and float32 has 24.
_ROUNDOFF: dict[str, tuple[float, float, float]] = {
    "cpu": (2.0**-24, 2.0**-24, 2.0**-24),
    "cuda": (2.0**-11, 2.0**-11, 2.0**-24),
    "tpu": (2.0**-8, 2.0**-16, 2.0**-24),
}


def roundoff(platform: str, precision: str) -> float:
    """Return the relative error with which a platform rounds the factors of float32 products.

    Tests derive their tolerances for products from this error.
    """
    return _ROUNDOFF[platform][_parse(precision)]


def set_precision(precision: Precision) -> None:
    """Set the precision for every thread that does not set its own."""
    _C.set_global_precision(_parse(precision))


def get_precision() -> str:
    """Return this thread's precision."""
    return _NAMES[_C.precision()]


class precision(ScopedSetting):  # noqa: N801 - used as a function: with torch.tpu.precision("highest")
    """Set this thread's precision in a `with` block or in a decorated function.

    Backward passes use the precision of their forward pass. A program is compiled once for each
    precision that it runs with.
    """

    def __init__(self, precision: Precision) -> None:
        super().__init__(_C.thread_precision, _C.set_thread_precision, _parse(precision))


def lowering_at(name: str) -> AbstractContextManager[Any]:
    """Return a context in which JAX traces matmuls with the given precision."""
    if name == "default":
        return nullcontext()
    import jax

    return jax.default_matmul_precision(name)


def _parse(name: str) -> int:
    if name not in _NAMES:
        raise ValueError(f"tpu: no precision {name!r}. Use one of: {', '.join(_NAMES)}")
    return _NAMES.index(name)
