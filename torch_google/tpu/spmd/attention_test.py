# SPDX-License-Identifier: Apache-2.0
"""Attention over a mesh equals attention on one device, also with a TPU's kernels, interpreted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from torch_google.tpu.spmd import devices_testing

_ATTEND = """
from jax.experimental.pallas.ops.tpu import flash_attention as pallas
from jax.interpreters import mlir
from torch.nn.functional import scaled_dot_product_attention
from torch_google.tpu.kernels.pallas import interpreted
from torch_google.tpu.lowerings import platform_choice
from torch_google.tpu.program import miscompiled_fusion

options = json.loads(sys.argv[2])
# Lower attention as for a TPU, with its kernels interpreted.
mlir.register_lowering(
    platform_choice._choice_p, platform_choice._lower_for_tpu, platform="cpu"
)
def resolve(lowered, replace=miscompiled_fusion.resolve):
    with interpreted("cpu"):
        return replace(lowered)
miscompiled_fusion.resolve = resolve
heads = []
kernel = pallas._flash_attention
def count(q, *arguments):
    heads.append(q.shape[:3])
    return kernel(q, *arguments)
pallas._flash_attention = count

q_shape, k_shape = (2, 4, 384, 8), (2, options.get("shared", 4), 384, 8)
shapes = q_shape, k_shape, k_shape
cpu = [torch.randn(s, requires_grad=True) for s in shapes]
tpu = [x.detach().to("tpu") for x in cpu]
mesh = spmd.Mesh(range(8), (2, 4), ("data", "model"))
for x in tpu:
    spec = [*options["spec"], None, None, None][:4]
    if x.shape[1] == 2:
        spec[1] = None
    marked(x, mesh, *spec).requires_grad_()
arguments = {"is_causal": options["causal"], "enable_gqa": True}
if options.get("mask"):
    mask = torch.rand(384, 384) < 0.5
    arguments |= {"attn_mask": mask, "is_causal": False}
expected = scaled_dot_product_attention(*cpu, **arguments)
expected.square().sum().backward()
if options.get("mask"):
    arguments["attn_mask"] = marked(mask.to("tpu"), mesh, None, None)
def attend(*tensors):
    return scaled_dot_product_attention(*tensors, **arguments)
if mode == "compile":
    attend = torch.compile(attend, backend="tpu", fullgraph=True)
actual = attend(*tpu)
actual.square().sum().backward()
values = [actual.detach().cpu(), *(x.grad.cpu() for x in tpu)]
for one, other in zip(values, [expected.detach(), *(x.grad for x in cpu)], strict=True):
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
print(json.dumps(sorted(set(map(tuple, heads)))))
"""


@pytest.mark.parametrize(
    ("spec", "options", "on_each_device"),
    [
        (["data", "model"], {"causal": True}, [[1, 1, 384]]),
        # Four devices share four heads, but only two heads of keys.
        (["data", "model"], {"causal": True, "shared": 2}, [[1, 1, 384]]),
        # The other axis divides the heads.
        (["data"], {"causal": False}, [[1, 1, 384]]),
        # Sharded rows use the kernels only if they are not causal, and 96 rows are too few.
        (["data", None, "model"], {"causal": True}, []),
        ([None, None, "data"], {"causal": False}, []),
        ([None, "data", None, "model"], {"causal": True}, []),
        (["data", "model"], {"causal": False, "mask": True}, []),
    ],
)
def test_values_and_gradients_equal_those_of_the_cpu(
    spec: list[Any], options: dict[str, Any], on_each_device: list[list[int]]
) -> None:
    assert _run("strict", spec, options) == on_each_device


def test_a_compiled_program_runs_the_kernels() -> None:
    assert _run("compile", ["data", "model"], {"causal": True}) == [[1, 1, 384]]


def _run(mode: str, spec: list[Any], options: dict[str, Any]) -> Any:
    text = json.dumps({"spec": spec, **options})
    return devices_testing.run(_ATTEND, mode, text, devices=8)
