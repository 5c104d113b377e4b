# SPDX-License-Identifier: Apache-2.0
"""Programs are split into computations and instructions, whatever their types and attributes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from torch_google.tpu.program import hlo


@pytest.mark.parametrize(
    ("line", "type_text", "opcode", "operands", "literal"),
    [
        ("  %a = f32[2,3]{1,0:T(8,128)S(1)} parameter(0)", "f32[2,3]{1,0:T(8,128)S(1)}", "parameter", (), "0"),
        ("  ROOT %a.1 = (f32[2]{0}, (s32[], u8[4]{0:T(4)})) tuple(%b, %c)", "(f32[2]{0}, (s32[], u8[4]{0:T(4)}))", "tuple", ("b", "c"), "%b, %c"),
        ("  a = pred[] compare(%b, %c), direction=LT", "pred[]", "compare", ("b", "c"), "%b, %c"),
        ("  %a = f64[2]{0} constant({1, nan})", "f64[2]{0}", "constant", (), "{1, nan}"),
        ('  %a = f32[] add(%b, %b), metadata={op_name="f(x)/add(%z)"}', "f32[]", "add", ("b", "b"), "%b, %b"),
    ],
)  # fmt: skip
def test_an_instruction(
    line: str, type_text: str, opcode: str, operands: tuple[str, ...], literal: str
) -> None:
    instruction = hlo.Instruction.parsed(line)
    assert instruction is not None
    assert (instruction.type, instruction.opcode) == (type_text, opcode)
    assert (instruction.operands, instruction.literal) == (operands, literal)
    assert instruction.is_root == ("ROOT" in line)


@pytest.mark.parametrize("line", ["", "}", "  ", "HloModule jit_f, a=b", "  // %a = f32[] b"])
def test_other_lines_have_no_instruction(line: str) -> None:
    assert hlo.Instruction.parsed(line) is None


@pytest.mark.parametrize(
    ("attributes", "called"),
    [
        ("kind=kLoop, calls=%fused.1, metadata={}", ("fused.1",)),
        ("condition=%c, body=%b", ("c", "b")),
        ("branch_computations={%one, %two.2}", ("one", "two.2")),
        ("to_apply=%sum", ("sum",)),
        ("direction=LT", ()),
    ],
)
def test_called_computations(attributes: str, called: tuple[str, ...]) -> None:
    instruction = hlo.Instruction.parsed(f"  %a = f32[] op(%x), {attributes}")
    assert instruction is not None
    assert instruction.called == called


def test_layouts() -> None:
    layouts = {"{1,0}": True, "{0,1}": False, "{1,0:T(8,128)}": True}
    for layout, is_row_major in layouts.items():
        instruction = hlo.Instruction.parsed(f"  %a = f32[2,3]{layout} parameter(0)")
        assert instruction is not None
        assert (instruction.sizes, instruction.is_row_major) == ((2, 3), is_row_major)
        assert instruction.element_count == 6


def test_a_compiled_program() -> None:
    def function(x: jax.Array) -> jax.Array:
        with jax.named_scope("here"):
            y = jax.lax.fori_loop(0, 3, lambda i, z: jnp.sin(z @ z) + i, x)
        return jax.lax.cond(y[0, 0] > 0, jnp.sort, jnp.exp, y)

    shape = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    text = jax.jit(function).lower(shape).compile().as_text()
    assert text is not None
    program = hlo.split(text)
    assert program.entry.startswith("main")
    scopes = ""
    opcodes = set()
    for lines in program.computations.values():
        instructions = list(filter(None, map(hlo.Instruction.parsed, lines)))
        assert len(instructions) == sum(" = " in line for line in lines)
        assert sum(each.is_root for each in instructions) == 1
        names = {each.name for each in instructions}
        for each in instructions:
            assert set(each.operands) <= names
            assert set(each.called) <= program.computations.keys()
            scopes += each.scope
            opcodes.add(each.opcode)
    assert "/here/" in scopes
    assert {"while", "conditional", "parameter"} <= opcodes


def test_text_without_a_program() -> None:
    assert hlo.split("HloModule empty") == hlo.Text({}, "")
