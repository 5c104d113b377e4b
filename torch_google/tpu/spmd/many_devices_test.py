# SPDX-License-Identifier: Apache-2.0
"""Tests that a training step over a mesh of 32 x 8 devices compiles. The step does not run."""

from __future__ import annotations

import pytest

from tools.par.testing.budget import is_full
from torch_google.tpu.spmd import devices_testing

_STEP = r"""
import re
from collections import Counter
from torch_google.tpu import compile_step
from torch_google.tpu.runtime import compiler

width, heads, words, length = 256, 8, 512, 64

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows = len(x)
        qkv = self.qkv(self.norms[0](x)).view(rows, length, 3, heads, width // heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))

mesh = spmd.Mesh(range(256), (32, 8), ("data", "model"))
with torch.device("meta"):
    model = nn.Sequential(
        nn.Embedding(words, width), Block(), Block(), nn.Linear(width, words, bias=False)
    )
model.to_empty(device="tpu")  # nothing is allocated before the first write
for block in (model[1], model[2]):
    for linear, spec in (
        (block.qkv, ("model", None)),
        (block.up, ("model", None)),
        (block.projection, (None, "model")),
        (block.down, (None, "model")),
    ):
        spmd.mark_sharding(linear.weight, mesh, spec)
for parameter in model.parameters():
    if not spmd.is_sharded(parameter):
        spmd.mark_sharding(parameter, mesh, (None,) * parameter.dim())
tokens = torch.empty(64, length, dtype=torch.long, device="tpu")
spmd.mark_sharding(tokens, mesh, ("data", None))

class Compiled(Exception):
    pass

compile_ = compiler.executable

def stop(name, lower, **options):
    raise Compiled(compile_(name, lower, **options))

compiler.executable = stop
step = compile_step(
    lambda x: nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten()),
    torch.optim.AdamW(model.parameters()),
)
try:
    step(tokens)
except Compiled as done:
    executable = done.args[0]
names = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
collectives = Counter(re.findall(rf"= \S+ ({names})(?:-start)?\(", executable.as_text()))
memory = executable.memory_analysis()
print(json.dumps({
    "collectives": collectives,
    "arguments": memory.argument_size_in_bytes,
    "temporary": memory.temp_size_in_bytes,
    "parameters": sum(4 * p.numel() for p in model.parameters()),
    "parameters per device": sum(
        spmd.XLAShardedTensor(p).bytes_per_device for p in model.parameters()
    ),
}))
"""


@pytest.mark.skipif(not is_full(), reason="15 seconds; runs in the full run")
def test_a_step_on_256_devices() -> None:
    report = devices_testing.run(_STEP, devices=256)
    print("\na GPT's training step on a mesh of 32 x 8 devices, in one program")
    for name, count in sorted(report["collectives"].items()):
        print(f"{name:<28} {count:>12}")
    for name in ("parameters", "parameters per device", "arguments", "temporary"):
        print(f"{name + ', bytes':<28} {report[name]:>12,}")
    assert report["collectives"]["all-reduce"] > 0
    assert report["parameters per device"] < report["parameters"] / 3
    # The arguments are the parameters, AdamW's two moments, the batch, and small counters.
    assert report["arguments"] < 3.1 * report["parameters per device"]
