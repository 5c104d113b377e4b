# SPDX-License-Identifier: Apache-2.0
"""A product of bfloat16 numbers with a folded transpose runs on XLA:CPU."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from torch_google.tpu.program.unsupported_products import has_unsupported_product


def _masked(count: int, x: jax.Array, y: jax.Array) -> jax.Array:
    """Multiply after a mask. XLA folds the transpose into the product."""
    x = jnp.where(jnp.arange(x.shape[1]) < count, x.transpose(0, 2, 1), 0)
    return _product(x, y)


def _product(x: jax.Array, y: jax.Array) -> jax.Array:
    dimensions = (((2,), (1,)), ((0,), (0,)))
    return jax.lax.dot_general(x, y, dimensions, preferred_element_type=jnp.float32)


_MODULE = """\
HloModule jit_masked, is_scheduled=true

%library (a: {dtype}[4,8], b: {dtype}[8,2]) -> f32[4,2] {{
  %a = {dtype}[4,8]{{1,0}} parameter(0)
  %b = {dtype}[8,2]{{1,0}} parameter(1)
  ROOT %product = f32[4,2]{{1,0}} dot(%a, %b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}

ENTRY %main (x: {dtype}[8,4], y: {dtype}[8,2]) -> f32[4,2] {{
  %x = {dtype}[8,4]{{1,0}} parameter(0)
  %y = {dtype}[8,2]{{1,0}} parameter(1)
  ROOT %result = f32[4,2]{{1,0}} {call}
}}
"""
_DOT = "dot(%x, %y), lhs_contracting_dims={0}, rhs_contracting_dims={0}"


@pytest.mark.parametrize(
    ("call", "dtype", "expected"),
    [
        (_DOT, "bf16", True),
        (_DOT, "f16", True),
        (_DOT, "f32", False),
        ("fusion(%x, %y), kind=kCustom, calls=%library", "bf16", False),
        ("fusion(%x, %y), kind=kLoop, calls=%library", "bf16", True),
    ],
)
def test_a_product_of_halves_outside_of_a_library_is_found(
    call: str, dtype: str, expected: bool
) -> None:
    assert has_unsupported_product(_MODULE.format(call=call, dtype=dtype)) is expected


_PROGRAM = """
import jax, numpy
from torch_google.tpu.program import compile_safely
from torch_google.tpu.program.unsupported_products import has_unsupported_product
from torch_google.tpu.program.unsupported_products_test import _masked
x = numpy.ones((16, 8, 16), jax.numpy.bfloat16)
y = numpy.ones((16, 8, 8), jax.numpy.bfloat16)
lowered = jax.jit(_masked).lower(5, x, y)
assert has_unsupported_product(lowered.compile().as_text())
assert (numpy.asarray(compile_safely(lowered)(5, x, y)) == 5).all()
"""


@pytest.mark.full
def test_a_masked_product_runs() -> None:
    """With the optimizations that the tests' quick compiler turns off."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("XLA_FLAGS", None)
    subprocess.run([sys.executable, "-c", _PROGRAM], env=environment, check=True)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_other_products_are_compiled_once(dtype: type) -> None:
    x, y = np.ones((16, 8, 16), dtype), np.ones((16, 16, 8), dtype)
    text = jax.jit(_product).lower(x, y).compile().as_text() or ""
    assert " dot(" in text
    assert not has_unsupported_product(text)


def test_a_compiled_function_multiplies_a_masked_transpose() -> None:
    x = torch.ones(16, 8, 16, dtype=torch.bfloat16, device="tpu")
    y = torch.ones(16, 8, 8, dtype=torch.bfloat16, device="tpu")
    mask = (torch.arange(8) < 5).to("tpu")

    @torch.compile
    def masked(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where(mask, x.transpose(1, 2), 0) @ y

    assert masked(x, y).cpu().eq(5).all()
