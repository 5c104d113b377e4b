# SPDX-License-Identifier: Apache-2.0
"""Test that the operators that each kernel computes are found in a program's HLO text."""

from __future__ import annotations

from torch_google.tpu.runtime import kernel_names

_TEXT = """\
HloModule jit_fused_0123456789ab

%computed (p: f32[8], q: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %q = f32[8]{0} parameter(1)
  %m = f32[8]{0} multiply(%p, %q), metadata={op_name="jit(fused_0)/op:0:mul.Tensor/mul"}
  ROOT %a = f32[8]{0} add(%m, %q), metadata={op_name="jit(fused_0)/op:1:add_.Tensor/jit(inner)/add"}
}

ENTRY %main.1 (x: f32[8], y: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %y = f32[8]{0} parameter(1)
  %multiply_add_fusion = f32[8]{0} fusion(%x, %y), kind=kLoop, calls=%computed, metadata={op_name="jit(fused_0)/op:1:add_.Tensor/add"}
  %copy.1 = f32[8]{0} copy(%x)
  ROOT %dot.3 = f32[] dot(%multiply_add_fusion, %y), metadata={op_name="jit(fused_0)/op:2:mm/dot_general"}
}
"""


def test_a_fusion_has_the_operators_of_its_computation() -> None:
    names = kernel_names.operators(_TEXT)
    assert names["multiply_add_fusion"] == ((0, "mul.Tensor"), (1, "add_.Tensor"))
    assert names["dot.3"] == ((2, "mm"),)
    assert "copy.1" not in names
    assert "computed()" not in names


def test_instructions_that_share_a_computation_have_their_own_operators() -> None:
    text = """\
%region (p: f32[], q: f32[]) -> f32[] {
  ROOT %a = f32[] add(%p, %q), metadata={op_name="jit(fused_0)/op:3:sum/reduce_sum"}
}

ENTRY %main (x: f32[8]) -> f32[] {
  %r.1 = f32[] reduce(%x, %c), to_apply=%region, metadata={op_name="jit(fused_0)/op:3:sum/reduce"}
  %r.2 = f32[] reduce(%x, %c), to_apply=%region, metadata={op_name="jit(fused_0)/op:5:mean/reduce"}
  %f.1 = f32[] fusion(%r.1), calls=%region, metadata={op_name="jit(fused_0)/op:7:mul.Tensor/mul"}
}
"""
    names = kernel_names.operators(text)
    assert names["r.1"] == ((3, "sum"),)
    assert names["r.2"] == ((5, "mean"),)
    assert names["f.1"] == ((7, "mul.Tensor"),)


def test_names_of_scopes_and_functions() -> None:
    assert kernel_names.scope(12, "aten::add_.Tensor") == "op:12:add_.Tensor"
    assert kernel_names.scope(0, "my lib::x/y") == "op:0:my_lib__x_y"
    assert kernel_names.function("fused 12 0123456789abcdef") == "fused_0123456789ab"
    assert kernel_names.module("fused 12 0123456789abcdef") == "jit_fused_0123456789ab"


def test_other_programs_have_no_names() -> None:
    assert kernel_names.of_modules(()) == {}
    assert kernel_names.of_modules({"jit_f", "jit_fused_absent"}) == {}
