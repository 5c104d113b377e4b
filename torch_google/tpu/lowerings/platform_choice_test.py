# SPDX-License-Identifier: Apache-2.0
"""`choose` selects the TPU version or the default when a program is lowered."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import jaxpr_as_fun

import torch_google.tpu.lowerings.against_cpu  # noqa: F401 (enables 64 bits)
from torch_google.tpu.lowerings.platform_choice import (
    NotOnTpu,
    choose,
    refuse_on_tpu,
    without_choices,
)


def sine(x: jax.Array) -> jax.Array:
    return choose(x, tpu=jnp.cos, default=jnp.sin)


def text(function: Any, *arrays: jax.Array, platform: str) -> str:
    return str(jax.jit(function).trace(*arrays).lower(lowering_platforms=(platform,)).as_text())


def test_the_platform_of_the_lowering_decides() -> None:
    x = jnp.ones(3)
    for platform, chosen, other in (("tpu", "cosine", "sine"), ("cpu", "sine", "cosine")):
        program = text(sine, x, platform=platform)
        assert f"stablehlo.{chosen} " in program
        assert f"stablehlo.{other} " not in program
    assert "stablehlo.sine " in text(sine, x, platform="cuda")


def test_other_platforms_get_the_same_program_as_without_a_choice() -> None:
    x = jnp.ones((3, 4))

    def plain(x: jax.Array) -> jax.Array:
        return jnp.linalg.norm(x) + x

    def function(x: jax.Array) -> jax.Array:
        return choose(x, tpu=jnp.cos, default=lambda x: jnp.linalg.norm(x) + x)

    function.__name__ = "plain"
    for platform in ("cpu", "cuda"):
        assert text(function, x, platform=platform) == text(plain, x, platform=platform)


def test_only_a_lowering_for_a_tpu_traces_the_way_for_it() -> None:
    def fail(x: jax.Array) -> jax.Array:
        raise AssertionError("traced")

    def function(x: jax.Array) -> jax.Array:
        return choose(x, tpu=fail, default=jnp.sin)

    text(function, jnp.ones(3), platform="cpu")
    with pytest.raises(AssertionError, match="traced"):
        text(function, jnp.ones(3), platform="tpu")


def test_it_runs_outside_of_a_program_and_over_a_batch() -> None:
    x = jnp.arange(6.0).reshape(2, 3)
    assert (sine(x) == jnp.sin(x)).all()
    assert (jax.vmap(sine)(x) == jnp.sin(x)).all()
    assert "stablehlo.cosine " in text(jax.vmap(sine), x, platform="tpu")
    pair = choose(x, tpu=lambda x: (x, x), default=lambda x: (x, x + 1))
    assert isinstance(pair, tuple)
    assert (pair[1] == x + 1).all()


def test_a_function_must_not_close_over_a_traced_value() -> None:
    def program(x: jax.Array, factor: jax.Array) -> Any:
        return choose(x, tpu=jnp.sin, default=lambda value: value * factor)

    with pytest.raises(TypeError, match="closes over a traced value. Pass that value"):
        jax.jit(program).trace(jnp.ones(3), jnp.ones(()))


def test_64_bits_can_be_off_on_a_tpu() -> None:
    def indices(x: jax.Array) -> jax.Array:
        return x[jnp.argsort(x)]

    for x64, wide in ((True, True), (False, False)):
        program = text(
            lambda x, on=x64: choose(x, tpu=indices, default=indices, x64=on),
            jnp.ones(3, jnp.float32),
            platform="tpu",
        )
        assert ("xi64>" in program) is wide


def test_a_refusal_names_the_operator_and_the_dtype() -> None:
    def function(x: jax.Array) -> jax.Array:
        return refuse_on_tpu(jnp.sin, x, name="aten::op", reason="it knows no sines")

    assert (function(jnp.ones(3)) == jnp.sin(1)).all()
    message = (
        r"tpu: a TPU has no aten::op of float64: it knows no sines.*torch.tpu.cpu_fallback\(\)"
    )
    with pytest.raises(NotOnTpu, match=message):
        text(function, jnp.ones(3), platform="tpu")


def test_the_program_of_other_platforms_has_no_choice() -> None:
    def function(x: jax.Array, scale: float) -> tuple[jax.Array, jax.Array]:
        high, low = jnp.split(sine(x) * scale, 2)
        return jax.jit(jnp.sort)(high), low

    x = jnp.arange(6.0)
    program = jax.make_jaxpr(function)(x, 2.0)
    plain = without_choices(program)
    assert "tpu_platform_choice" in str(program)
    assert "tpu_platform_choice" not in str(plain)
    assert [str(aval) for aval in plain.in_avals] == [str(aval) for aval in program.in_avals]
    for result, expected in zip(jaxpr_as_fun(plain)(x, 2.0), function(x, 2.0), strict=True):
        assert (result == expected).all()
    assert without_choices(plain) is plain
