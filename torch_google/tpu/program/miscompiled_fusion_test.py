# SPDX-License-Identifier: Apache-2.0
"""Only programs that XLA:CPU would miscompile are compiled again, without fusion."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import lax

import torch_google.tpu.program.miscompiled_fusion as under_test
from tools.par.testing.budget import only_full
from torch_google.tpu.program import compile_safely
from torch_google.tpu.program.miscompiled_fusion import is_miscompiled

_MODULE = """\
HloModule jit_f, is_scheduled=true

%fused (param_0: f32[4,2], param_1: s32[]) -> f32[4,2] {{
  %param_0 = f32[4,2]{{1,0}} parameter(0), metadata={{op_name="x"}}
  %param_1 = s32[] parameter(1)
  %zero = s32[] constant(0)
  %one = s32[] constant(1)
{body}
}}

ENTRY %main (x: f32[4,2], y: f32[4,2], i: s32[]) -> f32[4,2] {{
  %x = f32[4,2]{{1,0}} parameter(0)
  %i = s32[] parameter(1)
  %cast = f32[4,2]{{1,0}} bitcast(%x)
  ROOT %call = f32[4,2]{{1,0}} fusion({operands}), kind=kLoop, calls=%fused, metadata={{op_name="("}}
}}
"""
_ROW = "f32[1,2]{1,0}"
_WRITE = "  ROOT %w = f32[4,2]{1,0} dynamic-update-slice(%param_0, %u, %param_1, %zero)"
_READ = f"  %r = {_ROW} dynamic-slice(%param_0, %param_1, %zero), dynamic_slice_sizes={{1,2}}\n"


def _module(body: str, operands: str = "%x, %i") -> str:
    return _MODULE.format(body=body, operands=operands)


def test_an_update_that_reads_only_the_written_block_is_safe() -> None:
    assert not is_miscompiled(_module(f"{_READ}  %u = {_ROW} negate(%r)\n{_WRITE}"))
    constant_block = (
        f"  %r = {_ROW} slice(%param_0), slice={{[1:2], [0:2]}}\n  %u = {_ROW} add(%r, %r)\n"
        f"{_WRITE.replace('%param_1', '%one')}"
    )
    assert not is_miscompiled(_module(constant_block))
    assert is_miscompiled(_module(constant_block.replace("[1:2]", "[2:3]")))


@pytest.mark.parametrize(
    "update",
    [
        pytest.param(f"  %u = {_ROW} reverse(%r), dimensions={{1}}\n", id="other order"),
        pytest.param(
            "  %s = f32[1,1]{1,0} slice(%r), slice={[0:1], [0:1]}\n"
            f"  %b = {_ROW} broadcast(%s), dimensions={{0,1}}\n  %u = {_ROW} add(%r, %b)\n",
            id="one element for all",
        ),
        pytest.param(f"  %u = {_ROW} unheard-of(%r)\n", id="unknown operator"),
    ],
)
def test_an_update_that_moves_elements_is_unsafe(update: str) -> None:
    assert is_miscompiled(_module(f"{_READ}{update}{_WRITE}"))


def test_another_block_is_unsafe() -> None:
    read = _READ.replace("%param_1,", "%zero,").replace("%r =", "%u =")
    assert is_miscompiled(_module(f"{read}{_WRITE}"))


def test_another_operand_with_the_same_buffer_is_unsafe() -> None:
    body = f"{_READ.replace('%param_0', '%other')}  %u = {_ROW} negate(%r)\n{_WRITE}"
    body = f"  %other = f32[4,2]{{1,0}} parameter(2)\n{body}".replace(
        "%param_1, %zero)", "%zero, %zero)", 1
    )
    assert is_miscompiled(_module(body, "%x, %i, %cast"))
    assert not is_miscompiled(_module(body, "%x, %i, %y"))


def test_a_module_without_fused_writes_is_safe() -> None:
    assert not is_miscompiled(_module(f"{_READ}  ROOT %u = {_ROW} negate(%r)"))


@pytest.mark.parametrize("constant", ["f32[] constant(nan)", "f32[1]{0} constant({nan})"])
def test_an_exponential_of_a_known_nan_is_unsafe(constant: str) -> None:
    type_ = constant.split()[0]
    body = (
        f"  %n = {constant}\n  %z = {type_} convert(%zero)\n  %m = {type_} maximum(%z, %n)\n"
        f"  ROOT %e = {type_} exponential(%m)"
    )
    assert is_miscompiled(_module(body))
    assert not is_miscompiled(_module(body.replace("exponential(%m)", "exponential(%z)")))
    assert not is_miscompiled(_module(body.replace("nan", "1")))


_NAN_PROGRAM = """
import sys, warnings
import torch
from torch_google.tpu import autoload
autoload()
warnings.simplefilter("ignore")

def empty_variance(device):
    x = torch.zeros(0, dtype=torch.complex64, device=device)
    return x.real.var(0, correction=0).to(torch.float16).clamp(-4, 4).exp()

def masked(device):
    return (torch.ones(3, device=device) * float("nan")).exp()

mode = sys.argv[1]
for program in (empty_variance, masked):
    if mode == "compile":
        program = torch.compile(program)
    with torch.tpu.eager_mode("strict" if mode == "compile" else mode):
        for _ in range(3):
            result = program("tpu").cpu()
            assert result.isnan().all(), result
            torch.tpu.wait_for_compiles()
"""


@pytest.mark.full
@pytest.mark.parametrize("mode", ["strict", *only_full("fused", "compile")])
def test_the_exponential_of_nan_is_nan(mode: str) -> None:
    # Run in a new process: the XLA flags that the other tests set would hide the bug.
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "XLA_FLAGS": "",
    }
    environment.pop("TORCH_TPU_COMPILE_CACHE", None)
    done = subprocess.run(
        [sys.executable, "-c", _NAN_PROGRAM, mode],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _program(shape: tuple[int, ...], *, is_negated: bool) -> Callable[..., jax.Array]:
    """Return a program that adds `y[i]` to `y[:2]`, for `y = x.reshape(8)`.

    If `is_negated` is True, the program then negates `y[:2]`.
    """

    def read(x: jax.Array) -> jax.Array:
        return x.reshape(8)[0:2].reshape(1, 2)

    def write(x: jax.Array, update: jax.Array) -> jax.Array:
        update = update.reshape((2, 1)[: len(shape)])
        written = lax.dynamic_update_slice(x.reshape(shape), update, (0,) * len(shape))
        return written.reshape(4, 1, 2)

    def program(x: jax.Array, i: jax.Array) -> jax.Array:
        y = write(x, read(x) + read(x)[:, i])
        return write(y, -read(y)) if is_negated else y

    return program


@pytest.mark.parametrize("shape", [(8, 1), (8,)], ids=str)
@pytest.mark.parametrize("is_negated", [False, True])
def test_a_write_that_reads_its_target_is_right(shape: tuple[int, ...], is_negated: bool) -> None:
    x = np.full((4, 1, 2), 2, np.float32)
    jitted = jax.jit(_program(shape, is_negated=is_negated), donate_argnums=0)
    executable = compile_safely(jitted.lower(x, np.array([0])))
    expected = x.copy()
    expected[0] = -4 if is_negated else 4
    np.testing.assert_array_equal(executable(jnp.array(x), jnp.array([0])), expected)


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (4, 3, 2)], ids=str)
@pytest.mark.parametrize("order", itertools.permutations(range(3)), ids=str)
def test_transpositions_without_fusion_are_right(
    order: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    y = np.arange(24, dtype=np.complex64).reshape(2, 3, 4)
    lowered = jax.jit(lambda y: jnp.transpose(y, order).reshape(shape)).lower(y)
    result = lowered.compile(compiler_options=under_test._NO_FUSION)(y)
    np.testing.assert_array_equal(result, y.transpose(order).reshape(shape))


@pytest.mark.parametrize(
    "program",
    [
        lambda x, i: x.at[1:3].add(1),
        lambda x, i: x.at[i].multiply(2),
        lambda x, i: lax.dynamic_update_slice(x, jnp.ones_like(x[:1]), (i, 0)),
        lambda x, i: lax.fori_loop(0, 3, lambda j, y: y.at[j].add(y[j] * i), x),
    ],
    ids=["block", "row", "key-value cache", "loop"],
)
def test_a_common_write_is_compiled_once(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    options: list[Any] = []
    compiler = jax.stages.Lowered.compile

    def counted(lowered: jax.stages.Lowered, compiler_options: Any = None) -> Any:
        options.append(compiler_options)
        return compiler(lowered, compiler_options)

    monkeypatch.setattr(jax.stages.Lowered, "compile", counted)
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    executable = compile_safely(jax.jit(program, donate_argnums=0).lower(x, 1))
    assert " dynamic-update-slice(" in (executable.as_text() or "")
    assert options == [None]


def _diagonal_program(x: torch.Tensor) -> torch.Tensor:
    row = x.diagonal().reshape(-1, 2)
    row.add_(row[:, [0]].clone())
    row.neg_()
    return x


@pytest.mark.parametrize("mode", ["strict", "fused", "compile"])
def test_views_of_torch_that_read_their_target(mode: Any) -> None:
    expected = _diagonal_program(torch.full((4, 1, 2), 2.0))
    program = torch.compile(_diagonal_program) if mode == "compile" else _diagonal_program
    with torch.tpu.eager_mode("strict" if mode == "compile" else mode):
        for _ in range(3):  # the fused program is compiled in the background
            result = program(torch.full((4, 1, 2), 2.0).to("tpu"))
            torch.testing.assert_close(result.cpu(), expected)
            torch.tpu.wait_for_compiles()
