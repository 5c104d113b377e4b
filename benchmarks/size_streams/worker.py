# SPDX-License-Identifier: Apache-2.0
"""Run one peer on inputs whose sizes keep changing. See README.md for the peers.

Usage: `python3 -m benchmarks.size_streams.worker PEER STREAM`. A stream is a series of steps, each
with a new size. A step of `train` is a forward and backward pass with a longer sequence. A step of
`generate` generates one token, which extends the KV cache.

For each line on standard input, the worker performs one step and prints a JSON object: the CPU time
and wall time in seconds, the number of programs compiled so far, and the step's result.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from benchmarks.size_streams.model import VOCABULARY, Llama
from benchmarks.tpu_eager.torchax_peer import overloads_that_are_gone

PEERS = (
    *("torch", "inductor", "torchax"),
    *("strict", "fused", "kernels", "compiled", "padded", "compile"),
)


def main(argv: list[str]) -> int:
    peer, stream = argv
    torch.manual_seed(0)
    run = _torchax(stream) if peer == "torchax" else _torch(peer, stream)
    device = "cpu" if peer in ("torch", "inductor", "torchax") else "tpu"
    for _ in sys.stdin:
        cpu, wall = time.process_time(), time.perf_counter()
        value = next(run)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        answer = {"cpu": cpu, "wall": wall, "programs": _programs(device), "value": value}
        print(json.dumps(answer), flush=True)
    return 0


def _torch(peer: str, stream: str) -> Iterator[float]:
    """Return the stream, run by torch on the CPU or on tpu."""
    device = "cpu" if peer in ("torch", "inductor") else "tpu"
    if device == "tpu":
        from torch_google.tpu import autoload

        autoload()
        settings = {"kernels": True, "compiled": False, "padded": False}
        torch.tpu.set_cpu_kernels(settings.get(peer))
        torch.tpu.set_size_buckets(peer == "padded")
        torch.tpu.set_eager_mode("fused" if peer == "fused" else "strict")
    model: Any = Llama().to(device)
    if peer in ("inductor", "compile"):
        model = torch.compile(model, dynamic=True)
    return STREAMS[stream](model, device)


def _torchax(stream: str) -> Iterator[float]:
    """Yield the results of the stream, run by torchax with a jitted model or gradient."""
    with overloads_that_are_gone():
        torchax: Any = import_module("torchax")
        environment = torchax.default_env()
    interop: Any = import_module("torchax.interop")
    with environment:
        model = Llama().to("jax")
        if stream == "generate":
            yield from generate(interop.JittableModule(model), "jax")
        else:
            yield from _train_torchax(model, interop)


def _train_torchax(model: Any, interop: Any) -> Iterator[float]:
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def loss(values: dict[str, Any], tokens: Any) -> Any:
        logits = torch.func.functional_call(model, values, (tokens,))[0]
        return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())

    step = interop.jax_jit(interop.jax_value_and_grad(loss))
    for length in itertools.count(16):
        value, _ = step(parameters, _sequence(length, "jax"))
        yield float(value.item())


def train(model: Any, device: str) -> Iterator[float]:
    """Train with a sequence that is one token longer in each step, and yield the losses."""
    for length in itertools.count(16):
        tokens = _sequence(length, device)
        loss = F.cross_entropy(model(tokens)[0].flatten(0, 1), tokens.flatten())
        loss.backward()
        for parameter in model.parameters():
            parameter.grad = None
        yield loss.item()


def _sequence(length: int, device: str) -> torch.Tensor:
    return (torch.arange(2 * length) % VOCABULARY).reshape(2, length).to(device)


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
