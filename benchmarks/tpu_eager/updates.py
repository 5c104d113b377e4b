# SPDX-License-Identifier: Apache-2.0
"""The optimizers of the workloads, as plain arithmetic on JAX arrays or torch tensors."""

from __future__ import annotations

from typing import Any

Arrays = dict[str, Any]


def sgd(parameters: Arrays, grads: Arrays, state: dict[str, Any]) -> tuple[Arrays, dict[str, Any]]:
    """Apply a step of torch.optim.SGD(lr=0.01, momentum=0.9). `state` is the momentum buffer."""
    speed = {name: state[name] * 0.9 + grads[name] for name in grads}
    return {name: parameters[name] - speed[name] * 0.01 for name in grads}, speed


def adamw(
    parameters: Arrays, grads: Arrays, state: dict[str, Any]
) -> tuple[Arrays, dict[str, Any]]:
    """Apply a step of torch.optim.AdamW(lr=1e-3).

    `state` contains the step count, and the running means of the gradients and of their squares.
    """
    step = state["step"] + 1
    mean = {n: state["mean"][n] * 0.9 + grads[n] * 0.1 for n in grads}
    square = {n: state["square"][n] * 0.999 + grads[n] * grads[n] * 0.001 for n in grads}
    scale, root = 1e-3 / (1 - 0.9**step), (1 - 0.999**step) ** 0.5
    moved = {
        n: parameters[n] * (1 - 1e-5) - mean[n] * scale / (square[n] ** 0.5 / root + 1e-8)
        for n in grads
    }
    return moved, {"step": step, "mean": mean, "square": square}


def zeros(parameters: Arrays, optimizer: str) -> dict[str, Any]:
    """Return the initial state, all zeros, of `optimizer`, which is `sgd` or `adamw`."""

    def each() -> Arrays:
        return {name: value * 0 for name, value in parameters.items()}

    if optimizer == "sgd":
        return each()
    return {"step": next(iter(parameters.values())).sum() * 0, "mean": each(), "square": each()}


OPTIMIZERS = {"mlp": "sgd", "tiny_gpt": "sgd", "gpt": "adamw"}
UPDATES = {"sgd": sgd, "adamw": adamw}
