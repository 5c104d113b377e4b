# SPDX-License-Identifier: Apache-2.0
"""Tests the HLO parser on a program that the test compiles and on the text of TPU programs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from torch_google.tpu.estimate import schedule

_TPU = """\
HloModule jit_f, is_scheduled=true

ENTRY %main (a: f32[130,200], b: f32[130,200]) -> f32[130,200] {
  %a = f32[130,200]{1,0:T(8,128)} parameter(0), metadata={op_name="inputs[0]"}
  %b = f32[130,200]{1,0:T(8,128)} parameter(1), metadata={op_name="inputs[1]"}
  %copy-start = (f32[130,200]{1,0:T(8,128)S(1)}, f32[130,200]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(%a)
  %copy-done = f32[130,200]{1,0:T(8,128)S(1)} copy-done(%copy-start)
  %big = f32[130,400]{1,0:T(8,128)} fusion(%copy-done, %b), kind=kLoop, calls=%f, metadata={op_name="jit(f)/n12/add"}, backend_config={"estimated_cycles":"42"}
  %ar = (f32[8]{0}, bf16[8]{0}) all-reduce(%big, %b), to_apply=%sum
  ROOT %small = f32[130,200]{1,0:T(8,128)} fusion(%big, %ar), kind=kLoop, calls=%g, metadata={op_name="jit(f)/n13"}
}
"""


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("f32[130,200]{1,0:T(8,128)}", 136 * 256 * 4),
        ("f32[130,200]{0,1:T(8,128)}", 256 * 200 * 4),  # the first dimension is the innermost
        ("bf16[16,128]{1,0:T(8,128)(2,1)}", 16 * 128 * 2),
        ("f32[130,200]{1,0:T(8,128)S(1)}", 0),
        ("(s64[3]{0}, pred[5]{0})", 29),
        ("f32[]", 4),
        ("c128[2]{0}", 32),
        ("s4[4]{0}", 2),
        ("token[]", 0),
    ],
)
def test_sizes_have_the_padding_of_tiles(text: str, size: int) -> None:
    assert schedule.size_of(text) == size


def test_sizes_in_other_memories() -> None:
    assert schedule.size_of("f32[8]{0:S(1)}", everywhere=True) == 32


def test_lines_of_a_tpu() -> None:
    instructions = {i.name: i for i in schedule.entry(_TPU)}
    one = 136 * 256 * 4
    assert instructions["a"].argument == 0
    assert instructions["big"].node == 12
    assert instructions["big"].cycles == 42
    assert instructions["small"].node == 13
    assert instructions["copy-start"].node is None
    assert instructions["b"].bytes == one
    assert instructions["copy-start"].bytes == 0  # the result is in VMEM
    live = [i.name for i in schedule.live_at_peak(list(instructions.values()))]
    assert live == ["big", "small", "ar"]


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("(f32[8]{0}, f32[8]{0}, u32[]) copy-start(%a)", 32),
        ("f32[8]{0} all-reduce-start(%a)", 32),
        ("(f32[8]{0}, bf16[8]{0}) all-reduce-start(%a, %b)", 48),
        ("(f32[2]{0}, f32[8]{0}) all-gather-start(%a)", 32),
        ("((f32[2]{0}, bf16[2,1]{1,0}), (f32[8]{0}, bf16[8,1]{1,0})) all-gather-start(%a, %b)", 48),
        ("(f32[2]{0}, f32[2]{0}, u32[], u32[]) collective-permute-start(%a)", 8),
        ("((f32[16]{0}), f32[8]{0}, s32[]) slice-start(%a)", 32),
    ],
)
def test_the_result_of_a_started_instruction(line: str, size: int) -> None:
    text = f"ENTRY %main () -> f32[] {{\n  %x = {line}, channel_id=1\n}}\n"
    (instruction,) = schedule.entry(text)
    assert instruction.bytes == size


def test_computations_of_a_program() -> None:
    text = """\
HloModule jit_f, is_scheduled=true, num_partitions=16

%fused (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %n = f32[8]{0} negate(%p)
}

ENTRY %main.1_spmd (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  ROOT %f = f32[8]{0} fusion(%a), kind=kLoop, calls=%fused, metadata={op_name="jit(f)/n1/neg"}
}
"""
    module = schedule.module(text)
    assert list(module.computations) == ["fused", "main.1_spmd"]
    assert (module.entry, module.partitions) == ("main.1_spmd", 16)
    assert [i.opcode for i in schedule.entry(text)] == ["parameter", "fusion"]
    assert schedule.entry(text)[1].called == ("fused",)


def test_a_compiled_program() -> None:
    def function(x: jax.Array) -> jax.Array:
        with jax.named_scope("n7"):
            y = x @ x
        with jax.named_scope("n8"):
            return jnp.sort(y, axis=0) @ x

    shape = jax.ShapeDtypeStruct((256, 256), jnp.float32)
    compiled = jax.jit(function).lower(shape).compile()
    instructions = schedule.entry(str(compiled.as_text()))
    assert {7, 8} <= {i.node for i in instructions}
    (parameter,) = (i for i in instructions if i.opcode == "parameter")
    assert parameter.bytes == 256 * 256 * 4
    live = sum(i.bytes for i in schedule.live_at_peak(instructions))
    # At the peak, the result is live, together with the product, its sorted copy, or both.
    assert 256 * 256 * 4 <= live <= 5 * 256 * 256 * 4


def test_text_without_a_program() -> None:
    with pytest.raises(ValueError, match="no entry computation"):
        schedule.entry("HloModule empty")
