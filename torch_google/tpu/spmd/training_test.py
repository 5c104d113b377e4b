# SPDX-License-Identifier: Apache-2.0
"""Tests that sharding weights does not change losses, and that training uses the compile cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.par.testing.budget import is_full
from torch_google.tpu.spmd import devices_testing

# This program prints the largest difference between the losses on the CPU and on tpu, whether the
# weights and the optimizer's state have kept their shardings, and the number of compilations.
_TRAINING = """
class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, width = x.shape
        qkv = self.qkv(self.norms[0](x)).view(rows, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))

kind = sys.argv[2]
if kind == "mlp":
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    inputs, targets = torch.randn(20, 8, 16), torch.randn(20, 8, 4)
    criterion = nn.functional.mse_loss
else:
    model = nn.Sequential(nn.Embedding(32, 16), Block(16, 4), Block(16, 4), nn.Linear(16, 32))
    inputs, targets = torch.randint(0, 32, (20, 4, 8)), torch.randint(0, 32, (20, 4, 8))
    criterion = lambda y, t: nn.functional.cross_entropy(y.flatten(0, 1), t.flatten())

def train(model, batches):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loss_of = lambda x, y: criterion(model(x), y)
    if mode == "compile" and next(model.parameters()).device.type == "tpu":
        loss_of = torch.compile(loss_of)
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if mode == "fused":
            torch.tpu.wait_for_compiles()
    return [float(loss) for loss in losses], optimizer

reference = copy.deepcopy(model)
expected, _ = train(reference, zip(inputs, targets))
mesh = spmd.Mesh(range(4), (2, 2), ("data", "model"))
columns, rows = ("model", None), (None, "model")
model = model.to("tpu")
if kind == "mlp":
    marks = {"0.weight": columns, "0.bias": ("model",), "2.weight": rows}
else:
    marks = {"0.weight": columns, "3.weight": columns}
    for block in (1, 2):
        marks |= {f"{block}.{name}.weight": columns for name in ("qkv", "up")}
        marks |= {f"{block}.{name}.weight": rows for name in ("projection", "down")}
weights = dict(model.named_parameters())
for name, spec in marks.items():
    spmd.mark_sharding(weights[name], mesh, spec)
spec = spmd.ShardingSpec(mesh, ("data",))
actual, optimizer = train(model, spmd.shard_batches(zip(inputs, targets), spec))
kept = all(
    spec_of(t) == spec
    for name, spec in marks.items()
    for t in (weights[name], *(optimizer.state[weights[name]][k] for k in ("exp_avg", "exp_avg_sq")))
)
torch.tpu.wait_for_compiles()
worst = max(abs(a - b) for a, b in zip(expected, actual, strict=True))
counts = torch.tpu.metrics()
print(json.dumps([worst, kept, counts.compiles, counts.fused_hits]))
"""


@pytest.mark.full
@pytest.mark.parametrize("mode", ["compile", *["strict", "fused"] * is_full()])
@pytest.mark.parametrize("kind", ["mlp", "gpt"] if is_full() else ["mlp"])
def test_losses_are_the_cpus(kind: str, mode: str, tmp_path: Path) -> None:
    cold = devices_testing.run(_TRAINING, mode, kind, cache=tmp_path)
    warm = devices_testing.run(_TRAINING, mode, kind, cache=tmp_path)
    for worst, kept, _, hits in (cold, warm):
        assert worst <= 1e-6
        assert kept
        assert (hits > 10) == (mode == "fused")
    assert cold[2] > 0
    assert warm[2] == 0


_STEP = """
from torch_google.tpu import compile_step
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).to("tpu")
x, y = torch.randn(8, 16), torch.randn(8, 4)
alone = copy.deepcopy(model)
mesh = spmd.Mesh(range(4), (2, 2), ("data", "model"))
spmd.mark_sharding(model[0].weight, mesh, ("model", None))
spmd.mark_sharding(model[2].weight, mesh, (None, "model"))
def stepper(model):
    loss = lambda x, y: nn.functional.mse_loss(model(x), y)
    return compile_step(loss, torch.optim.AdamW(model.parameters(), lr=1e-2))
steps = stepper(alone), stepper(model)
batch = spmd.shard_batch((x, y), spmd.ShardingSpec(mesh, ("data",)))
worst = 0.0
for _ in range(5):
    expected, actual = steps[0](x.to("tpu"), y.to("tpu")), steps[1](*batch)
    worst = max(worst, abs(expected.item() - actual.item()))
print(json.dumps([worst, spec_of(model[0].weight), spec_of(model[2].weight)]))
"""


@pytest.mark.full
def test_a_step_as_one_program_has_the_losses_of_one_device() -> None:
    worst, first, second = devices_testing.run(_STEP)
    assert worst <= 1e-6
    assert (first, second) == (["model", None], [None, "model"])
