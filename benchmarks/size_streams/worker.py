# SPDX-License-Identifier: Apache-2.0
"""Run one peer on inputs whose sizes keep changing, and print the cost per step as JSON.

A peer is one of the implementations that the benchmark compares. A stream is a series of steps.

Usage: `python3 -m benchmarks.size_streams.worker PEER STREAM STEPS`. A step of the `train` stream
is a forward and backward pass with a new sequence length. A step of `generate` generates one token,
which extends the KV cache.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from benchmarks.size_streams.model import VOCABULARY, Llama

# The number of warm-up steps. In the first steps, compilers may generate code for a single size.
WARM = 16
PEERS = ("torch", "inductor", "strict", "fused", "compiled", "compile")


def main(argv: list[str]) -> int:
    peer, stream, steps = argv[0], argv[1], int(argv[2])
    torch.manual_seed(0)
    device = "cpu" if peer in ("torch", "inductor") else "tpu"
    begin = time.process_time()
    if device == "tpu":
        from torch_google.tpu import autoload

        autoload()
        torch.tpu.set_cpu_kernels(peer in ("strict", "fused"))
        torch.tpu.set_eager_mode("fused" if peer == "fused" else "strict")
    model: Any = Llama().to(device)
    if peer in ("inductor", "compile"):
        model = torch.compile(model, dynamic=True)
    run = STREAMS[stream](model, device)
    next(run)
    first = time.process_time() - begin
    costs, programs = [], 0
    for step in range(WARM + steps):
        if step == WARM:
            programs = _programs(device)
        begin, wall = time.process_time(), time.perf_counter()
        value = next(run)
        costs.append((time.process_time() - begin, time.perf_counter() - wall))
    measured = costs[WARM:]
    answer = {
        "first": first,
        "cpu": statistics.median(cost[0] for cost in measured),
        "wall": statistics.median(cost[1] for cost in measured),
        "mean": statistics.fmean(cost[0] for cost in measured),
        "programs": (_programs(device) - programs) / steps,
        "value": value,
    }
    print(json.dumps(answer))
    return 0


def train(model: Any, device: str) -> Iterator[float]:
    """Train with a sequence that is one token longer in each step, and yield the losses."""
    length = 16
    while True:
        tokens = (torch.arange(2 * length) % VOCABULARY).reshape(2, length).to(device)
        loss = F.cross_entropy(model(tokens)[0].flatten(0, 1), tokens.flatten())
        loss.backward()
        for parameter in model.parameters():
            parameter.grad = None
        yield loss.item()
        length += 1


@torch.no_grad()
def _next_token(model: Any, token: torch.Tensor, cache: Any) -> tuple[torch.Tensor, Any]:
    logits, cache = model(token, cache)
    return logits[:, -1:].argmax(-1), cache


def generate(model: Any, device: str) -> Iterator[float]:
    """Generate tokens with a growing KV cache, and yield each token."""
    tokens = (torch.arange(8) % VOCABULARY).reshape(1, 8).to(device)
    token, cache = _next_token(model, tokens, None)
    while True:
        yield float(token.item())
        token, cache = _next_token(model, token, cache)


def _programs(device: str) -> int:
    if device == "cpu":
        return 0
    torch.tpu.wait_for_compiles()
    counted = torch.tpu.metrics()
    return int(counted.compiles + counted.graphs.get("compile", 0))


STREAMS: dict[str, Callable[[Any, str], Iterator[float]]] = {"train": train, "generate": generate}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
