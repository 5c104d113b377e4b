# SPDX-License-Identifier: Apache-2.0

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core.primitives import dot_general_p

from torch_google.tpu.lowerings.platform_choice import choose
from torch_google.tpu.program import reordered


def matrices(*shapes: tuple[int, int]) -> list[jax.Array]:
    generator = np.random.default_rng(0)
    return [jnp.asarray(generator.standard_normal(shape), jnp.float32) for shape in shapes]


def rows_of_right(a: jax.Array, b: jax.Array) -> jax.Array:
    return jax.lax.dot_general(a, b.T, (((0,), (1,)), ((), ()))) * 2


@pytest.mark.parametrize("widths", [(512, 128), (128, 512), (256, 256)])
@pytest.mark.parametrize("function", [lambda a, b: (a.T @ b) * 2, rows_of_right])
def test_sums_over_rows_of_both(function, widths):  # type: ignore[no-untyped-def]
    a, b = matrices((512, widths[0]), (512, widths[1]))
    traced = jax.make_jaxpr(function)(a, b)
    quicker = reordered(traced)
    assert quicker is not None
    (actual,) = quicker(a, b)
    np.testing.assert_allclose(actual, function(a, b), rtol=1e-5, atol=1e-4)
    jaxpr = jax.make_jaxpr(quicker)(a, b)
    (product,) = (eqn for eqn in jaxpr.jaxpr.eqns if eqn.primitive is dot_general_p)
    assert product.params["dimension_numbers"] == (((1,), (0,)), ((), ()))
    left, right = (atom.aval.shape for atom in product.invars)
    assert left[0] <= right[1]
    # The left operand has a barrier, and so does the result if the operands were swapped.
    barriers = [eqn for eqn in jaxpr.jaxpr.eqns if eqn.primitive.name == "optimization_barrier"]
    assert len(barriers) == 1 + (widths[0] > widths[1])
    assert reordered(jaxpr) is None


def test_the_rest_of_a_program_is_as_it_was() -> None:
    a, b = matrices((512, 512), (512, 128))
    held = jnp.arange(128.0, dtype=jnp.float32)

    def function(a: jax.Array, b: jax.Array) -> list[jax.Array]:
        high, low = jnp.split(a.T @ b, 2)
        return [jnp.where(low > 0, low, high) + held, jax.jit(jnp.sort)(low), a, held]

    quicker = reordered(jax.make_jaxpr(function)(a, b))
    assert quicker is not None
    for actual, expected in zip(quicker(a, b), function(a, b), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a @ b,
        lambda a, b: a @ b.T,
        lambda a, b: a.T @ b.T,
        # These operands are too small: copying one would cost more time than it saves.
        lambda a, b: a[:64, :64].T @ b[:64, :64],
        lambda a, b: a[None].mT @ b[None],
        lambda a, b: jnp.tensordot(a, b),
    ],
)
def test_other_products_are_left_alone(function):  # type: ignore[no-untyped-def]
    assert reordered(jax.make_jaxpr(function)(*matrices((512, 512), (512, 512)))) is None


def test_products_that_a_tpu_computes_otherwise_are_reordered() -> None:
    a, b = (jnp.arange(512 * n).reshape(512, n) for n in (512, 128))

    def function(a: jax.Array, b: jax.Array) -> jax.Array:
        return choose(a.T, b, tpu=jnp.add, default=jnp.matmul) + 1

    quicker = reordered(jax.make_jaxpr(function)(a, b))
    assert quicker is not None
    assert (quicker(a, b)[0] == a.T @ b + 1).all()
