# SPDX-License-Identifier: Apache-2.0
"""Tests counts of flops, HBM traffic and collectives, in loops and in overlapping fusions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from torch_google.tpu.estimate import schedule
from torch_google.tpu.estimate.advice import replicated
from torch_google.tpu.estimate.capture import Operator
from torch_google.tpu.estimate.chips import CHIPS
from torch_google.tpu.estimate.collectives import Collectives, collectives
from torch_google.tpu.estimate.costs import Counted, count, operator_costs
from torch_google.tpu.estimate.loops import runs
from torch_google.tpu.estimate.traffic import stepped, traffic

# A loop in the form that libtpu prints: it multiplies by one slice of the weights while it receives
# the next. The counter increases by 2 until it reaches 8. An all-gather runs concurrently, and each
# fusion contains a copy of its instruction. The convolution is a matmul of [64, 32] by [2, 16, 32]
# with two outputs. Each uses one of the two [16, 32] slices; the other is padding.
_LOOP = """\
HloModule jit_f, is_scheduled=true, num_partitions=16

%start (p.1: bf16[2,128]) -> (bf16[2,128], bf16[8,128]) {
  %p.1 = bf16[2,128]{1,0} parameter(0)
  %ag.1 = bf16[8,128]{1,0} all-gather(%p.1), channel_id=7, replica_groups=[4,4]<=[16], dimensions={0}
  ROOT %s = (bf16[2,128]{1,0}, bf16[8,128]{1,0}) custom-call(%ag.1), custom_call_target="AsyncCollectiveStart"
}

%overlap (p.2: bf16[2,128], p.3: bf16[8,128], p.4: bf16[64,32], p.5: bf16[2,16,32]) -> (f32[64,2,16], bf16[8,128]) {
  %p.2 = bf16[2,128]{1,0} parameter(0)
  %p.3 = bf16[8,128]{1,0} parameter(1)
  %p.4 = bf16[64,32]{1,0} parameter(2)
  %p.5 = bf16[2,16,32]{2,1,0} parameter(3)
  %view = bf16[64,32,1]{1,0,2} bitcast(%p.4)
  %c = f32[64,2,16]{2,1,0} convolution(%view, %p.5), window={size=2 pad=1_1 rhs_reversal=1}, dim_labels=bf0_0oi->b0f, metadata={op_name="jit(f)/n3/dot_general"}
  %ag.2 = bf16[8,128]{1,0} all-gather(%p.2), channel_id=7, replica_groups=[4,4]<=[16], dimensions={0}
  ROOT %t = (f32[64,2,16]{2,1,0}, bf16[8,128]{1,0}) tuple(%c, %p.3)
}

%end (p.6: bf16[2,128], p.7: bf16[8,128]) -> bf16[8,128] {
  %p.6 = bf16[2,128]{1,0} parameter(0)
  %p.7 = bf16[8,128]{1,0} parameter(1)
  %ag.3 = bf16[8,128]{1,0} all-gather(%p.6), channel_id=7, replica_groups=[4,4]<=[16], dimensions={0}
  ROOT %d = bf16[8,128]{1,0} custom-call(%p.6, %p.7, %ag.3), custom_call_target="AsyncCollectiveDone"
}

%body (state: (u32[], bf16[2,128], bf16[8,128], bf16[64,32], bf16[2,16,32], u32[])) -> (u32[], bf16[2,128], bf16[8,128], bf16[64,32], bf16[2,16,32], u32[]) {
  %state = (u32[], bf16[2,128]{1,0}, bf16[8,128]{1,0}, bf16[64,32]{1,0}, bf16[2,16,32]{2,1,0}, u32[]) parameter(0)
  %two = u32[] constant(2)
  %i = u32[] get-tuple-element(%state), index=0
  %a = bf16[2,128]{1,0} get-tuple-element(%state), index=1
  %b = bf16[8,128]{1,0} get-tuple-element(%state), index=2
  %l = bf16[64,32]{1,0} get-tuple-element(%state), index=3
  %r = bf16[2,16,32]{2,1,0} get-tuple-element(%state), index=4
  %n = u32[] get-tuple-element(%state), index=5
  %next = u32[] add(%i, %two)
  %f = (f32[64,2,16]{2,1,0}, bf16[8,128]{1,0}) fusion(%a, %b, %l, %r), kind=kOutput, calls=%overlap, metadata={op_name="jit(f)/n3/dot_general"}
  %g = bf16[8,128]{1,0} get-tuple-element(%f), index=1
  %p = bf16[2,16,32]{2,1,0} collective-permute(%r), channel_id=8, source_target_pairs={{0,1},{1,0}}
  ROOT %o = (u32[], bf16[2,128]{1,0}, bf16[8,128]{1,0}, bf16[64,32]{1,0}, bf16[2,16,32]{2,1,0}, u32[]) tuple(%next, %a, %g, %l, %p, %n)
}

%test (state.1: (u32[], bf16[2,128], bf16[8,128], bf16[64,32], bf16[2,16,32], u32[])) -> pred[] {
  %state.1 = (u32[], bf16[2,128]{1,0}, bf16[8,128]{1,0}, bf16[64,32]{1,0}, bf16[2,16,32]{2,1,0}, u32[]) parameter(0)
  %limit = u32[] constant(8)
  %at = u32[] get-tuple-element(%state.1), index=0
  ROOT %less = pred[] compare(%at, %limit), direction=LT
}

%all-reduce-scatter (x: f32[64,32]) -> f32[16,32] {
  %x = f32[64,32]{1,0} parameter(0)
  %ar = f32[64,32]{1,0} all-reduce(%x), channel_id=9, replica_groups=mesh['axis_0'=4,'axis_1'=4] {'axis_1'}, to_apply=%sum
  ROOT %part = f32[16,32]{1,0} dynamic-slice(%ar), dynamic_slice_sizes={16,32}
}

ENTRY %main (w: bf16[2,128], l: bf16[64,32], r: bf16[2,16,32], x: f32[64,32]) -> f32[16,32] {
  %w = bf16[2,128]{1,0} parameter(0)
  %l.1 = bf16[64,32]{1,0} parameter(1)
  %r.1 = bf16[2,16,32]{2,1,0} parameter(2)
  %x.1 = f32[64,32]{1,0} parameter(3)
  %zero = u32[] constant(0)
  %copied = u32[] copy(%zero)
  %fs = (bf16[2,128]{1,0}, bf16[8,128]{1,0}) fusion(%w), kind=kCustom, calls=%start
  %e0 = bf16[2,128]{1,0} get-tuple-element(%fs), index=0
  %e1 = bf16[8,128]{1,0} get-tuple-element(%fs), index=1
  %init = (u32[], bf16[2,128]{1,0}, bf16[8,128]{1,0}, bf16[64,32]{1,0}, bf16[2,16,32]{2,1,0}, u32[]) tuple(%copied, %e0, %e1, %l.1, %r.1, %zero)
  %w.1 = (u32[], bf16[2,128]{1,0}, bf16[8,128]{1,0}, bf16[64,32]{1,0}, bf16[2,16,32]{2,1,0}, u32[]) while(%init), condition=%test, body=%body
  %e2 = bf16[8,128]{1,0} get-tuple-element(%w.1), index=2
  %fd = bf16[8,128]{1,0} fusion(%e0, %e2), kind=kCustom, calls=%end
  ROOT %rs = f32[16,32]{1,0} fusion(%x.1), kind=kCustom, calls=%all-reduce-scatter
}
"""
_PRODUCT = 2 * 64 * 32 * 2 * 16


def _counted(function: Callable[..., Any], *shapes: Any) -> tuple[Counted, float]:
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    compiled = jax.jit(function).lower(*arguments).compile()
    xla = float(compiled.cost_analysis()["flops"])
    return count(str(compiled.as_text()), {}, 1, xla), xla


def test_a_loop_with_a_counter() -> None:
    counted = count(_LOOP, {}, 16, float(_PRODUCT))
    assert counted.runs.counts["body"] == counted.runs.counts["overlap"] == 4
    assert counted.runs.unknown == 0
    assert counted.by_node[3].total == counted.flops.total == 4 * _PRODUCT


def test_collectives_count_once_and_in_loops() -> None:
    module = schedule.module(_LOOP)
    found = collectives(module, runs(module).counts)
    gathered, permuted, scattered = 8 * 128 * 2, 2 * 16 * 32 * 2, 16 * 32 * 4
    assert found == {
        "all-gather": Collectives(1, gathered, gathered * 3 // 4),
        "collective-permute": Collectives(4, 4 * permuted, 4 * permuted),
        "reduce-scatter": Collectives(1, scattered, 3 * scattered),
    }


def test_traffic_of_overlapping_fusions() -> None:
    module = schedule.module(_LOOP)
    assert set(stepped(module)) == {"main", "body", "test"}
    body = traffic(module, "body")
    assert body["f"] == 64 * 32 * 2 + 2 * 16 * 32 * 2 + 64 * 2 * 16 * 4
    main = traffic(module, "main")
    assert (main["fs"], main["w.1"]) == (0, 0)
    assert main["fd"] == 8 * 128 * 2


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("all-reduce(%a), replica_groups={{0,1},{2,3}}", (32, 32)),
        ("all-reduce(%a), replica_groups={}", (32, 2 * 32 * 7 // 8)),
        ("all-gather-start(%a), replica_groups=[2,4]<=[8]", (32, 24)),
        ("reduce-scatter(%a), replica_groups=[2,4]<=[4,2]T(1,0)", (32, 96)),
        ("all-to-all(%a), replica_groups=mesh['x'=2,'y'=4] {'x','y'}", (32, 28)),
    ],
)
def test_bytes_that_a_device_sends(line: str, expected: tuple[int, int]) -> None:
    kind = line.partition("(")[0]
    result = "(f32[2]{0}, f32[8]{0})" if kind.endswith("-start") else "f32[8]{0}"
    text = (
        "HloModule m, num_partitions=8\n\nENTRY %main (a: f32[2]) -> f32[8] {\n"
        f"  %a = f32[2]{{0}} parameter(0)\n  ROOT %x = {result} {line}\n}}\n"
    )
    module = schedule.module(text)
    found = collectives(module, runs(module).counts)
    assert found == {kind.removesuffix("-start"): Collectives(1, *expected)}


def test_a_scan_counts_all_its_steps() -> None:
    def scanned(x: jax.Array, w: jax.Array) -> jax.Array:
        return lax.scan(lambda x, _: (jnp.tanh(x @ w), None), x, None, length=7)[0]

    counted, xla = _counted(scanned, (32, 64), (64, 64))
    product = 2 * 32 * 64 * 64
    assert xla < 2 * product
    assert 7 * product <= counted.flops.total < 7.1 * product
    assert counted.flops.full >= 7 * product


@pytest.mark.parametrize(
    ("options", "shapes"),
    [
        ({"padding": "SAME"}, ((2, 3, 16, 16), (5, 3, 3, 3))),
        ({"padding": "VALID", "window_strides": (2, 3)}, ((2, 3, 16, 16), (5, 3, 3, 3))),
        ({"padding": "SAME", "rhs_dilation": (2, 2)}, ((2, 3, 16, 16), (5, 3, 3, 3))),
        ({"padding": ((2, 2), (1, 1)), "lhs_dilation": (2, 2)}, ((2, 3, 9, 9), (5, 3, 3, 3))),
        ({"padding": "SAME", "feature_group_count": 3}, ((2, 6, 16, 16), (9, 2, 3, 3))),
        ({"padding": "SAME", "batch_group_count": 2}, ((4, 3, 16, 16), (6, 3, 3, 3))),
    ],
)
def test_convolutions_are_those_of_xla(options: dict[str, Any], shapes: Any) -> None:
    options = {"window_strides": (1, 1), **options}
    counted, xla = _counted(lambda x, w: lax.conv_general_dilated(x, w, **options), *shapes)
    assert counted.flops.full == xla
    assert counted.flops.half == 0


def test_slices_move_their_own_size() -> None:
    def sliced(x: jax.Array, index: jax.Array) -> jax.Array:
        part = lax.dynamic_slice(x, (index.astype(int), 0), (2, 256))
        return lax.dynamic_update_slice(x, part * 2, (0, 0))

    arguments = (
        jax.ShapeDtypeStruct((4096, 256), jnp.float32),
        jax.ShapeDtypeStruct((), jnp.float32),
    )
    compiled = jax.jit(sliced, donate_argnums=0).lower(*arguments).compile()
    counted = count(str(compiled.as_text()), {}, 1, 0.0)
    assert counted.bytes < 16 * 2 * 256 * 4


def test_a_copy_counts_to_its_user() -> None:
    text = """\
ENTRY %main (a: f32[8,128]) -> f32[8,128] {
  %a = f32[8,128]{1,0} parameter(0)
  %s = (f32[8,128]{1,0:S(1)}, f32[8,128]{1,0}, u32[]) copy-start(%a)
  %d = f32[8,128]{1,0:S(1)} copy-done(%s)
  ROOT %n = f32[8,128]{1,0} negate(%d), metadata={op_name="jit(f)/n5/neg"}
}
"""
    operators = {5: Operator("neg", "layer", "file.py:1", 0, False)}
    (cost,) = operator_costs(count(text, operators, 1, 0.0), operators, 1, CHIPS["v5e"])
    assert (cost.op, cost.module, cost.bytes) == ("neg", "layer", 2 * 8 * 128 * 4)


def test_a_product_that_is_replicated() -> None:
    operators = {
        0: Operator("mm", "mlp", "net.py:1", 1600, False),
        1: Operator("attention", "layers.0.attn", "net.py:2", 1600, False),
        3: Operator("attention", "layers.1.attn", "net.py:2", 1600, False),
        2: Operator("mm", "head", "net.py:3", 16, False),
    }
    (line,) = replicated(operators, {0: 100.0, 1: 1600.0, 2: 2.0, 3: 1500.0, 7: 5.0}, 16)
    assert line.startswith(
        "layers.*.attn net.py:2: each device computes 16 times its share of attention"
    )


def test_a_product_of_bfloat16_takes_one_pass() -> None:
    text = """\
ENTRY %main (a: bf16[8,8]) -> bf16[8,8] {
  %a = bf16[8,8]{1,0} parameter(0)
  %b = f32[8,8]{1,0} parameter(1)
  %c = bf16[8,8]{1,0} dot(%a, %a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %d = f32[8,8]{1,0} dot(%b, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
    flops = count(text, {}, 1, 2 * 1024.0).flops
    assert (flops.half, flops.full) == (1024, 1024)
