# SPDX-License-Identifier: Apache-2.0
"""The workloads in plain JAX, with the weights of the torch models, to show XLA's cost alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch

from benchmarks.tpu_eager.models import workload
from benchmarks.tpu_eager.updates import OPTIMIZERS, UPDATES, Arrays, zeros


def train(name: str) -> Callable[[], float]:
    """Return a function that runs one training step and returns its loss."""
    work = workload(name)
    state = _arrays(work.model.state_dict())
    inputs, targets = jnp.asarray(work.inputs.numpy()), jnp.asarray(work.targets.numpy())
    optimizer = OPTIMIZERS[name]
    forward = _mlp if name == "mlp" else _gpt(heads=4 if name == "gpt" else 2)

    def loss(parameters: Arrays) -> jax.Array:
        scores = jax.nn.log_softmax(forward(parameters, inputs).reshape(targets.size, -1))
        return -jnp.take_along_axis(scores, targets.reshape(-1, 1), 1).mean()

    def step(parameters: Arrays, moments: dict[str, Any]) -> tuple[jax.Array, Any, Any]:
        value, grads = jax.value_and_grad(loss)(parameters)
        return value, *UPDATES[optimizer](parameters, grads, moments)

    jitted = jax.jit(step, donate_argnums=(0, 1))
    held = [state, zeros(state, optimizer)]

    def run() -> float:
        value, *held[:] = jitted(*held)
        return float(value)

    return run


def infer(name: str) -> Callable[[], float]:
    """Return a function that runs the ResNet once and returns the sum of its logits."""
    work = workload(name)
    # Weights and images are channels-last, the usual layout in JAX.
    parameters = {
        key: value.transpose(2, 3, 1, 0) if value.ndim == 4 else value
        for key, value in _arrays(work.model.state_dict()).items()
    }
    images = jnp.asarray(work.inputs.numpy()).transpose(0, 2, 3, 1)
    jitted = jax.jit(_resnet18)
    return lambda: float(jitted(parameters, images).sum())


def add() -> tuple[Callable[[], None], Callable[[], None]]:
    """Return two functions: one issues `x + y`, the other waits for all results."""
    x, y = jnp.ones((8, 8)), jnp.ones((8, 8))
    jitted = jax.jit(jnp.add)
    held = [x]

    def run() -> None:
        held[0] = jitted(x, y)

    def wait() -> None:
        held[0].block_until_ready()

    return run, wait


def _arrays(state: dict[str, torch.Tensor]) -> Arrays:
    return {name: jnp.asarray(value.numpy()) for name, value in state.items()}


def _linear(p: Arrays, name: str, x: jax.Array) -> jax.Array:
    y = x @ p[f"{name}.weight"].T
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def _mlp(p: Arrays, x: jax.Array) -> jax.Array:
    layers = sorted({int(name.partition(".")[0]) for name in p})
    for layer in layers[:-1]:
        x = jax.nn.relu(_linear(p, str(layer), x))
    return _linear(p, str(layers[-1]), x)


def _norm(p: Arrays, name: str, x: jax.Array) -> jax.Array:
    return jax.nn.standardize(x, epsilon=1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def _gpt(heads: int) -> Callable[[Arrays, jax.Array], jax.Array]:
    def block(p: Arrays, name: str, x: jax.Array) -> jax.Array:
        qkv = _linear(p, f"{name}.to_heads", _norm(p, f"{name}.before_attention", x))
        q, k, v = (part.reshape(*part.shape[:2], heads, -1) for part in jnp.split(qkv, 3, -1))
        attended = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape)
        x = x + _linear(p, f"{name}.from_heads", attended)
        wide = _linear(p, f"{name}.widen", _norm(p, f"{name}.before_widening", x))
        return x + _linear(p, f"{name}.narrow", jax.nn.gelu(wide, approximate=True))

    def forward(p: Arrays, tokens: jax.Array) -> jax.Array:
        x = p["word.weight"][tokens] + p["position.weight"][: tokens.shape[1]]
        blocks = {name.split(".")[1] for name in p if name.startswith("blocks.")}
        for number in sorted(blocks, key=int):
            x = block(p, f"blocks.{number}", x)
        return _linear(p, "to_words", _norm(p, "last", x))

    return forward


def _conv(p: Arrays, name: str, x: jax.Array, stride: int = 1) -> jax.Array:
    weight = p[f"{name}.weight"]
    pad = weight.shape[0] // 2
    return jax.lax.conv_general_dilated(
        x,
        weight,
        (stride, stride),
        ((pad, pad), (pad, pad)),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


def _batch_norm(p: Arrays, name: str, x: jax.Array) -> jax.Array:
    scale = p[f"{name}.weight"] * jax.lax.rsqrt(p[f"{name}.running_var"] + 1e-5)
    return x * scale + (p[f"{name}.bias"] - p[f"{name}.running_mean"] * scale)


def _basic_block(p: Arrays, name: str, x: jax.Array) -> jax.Array:
    stride = 2 if f"{name}.around.0.weight" in p else 1
    y = jax.nn.relu(_batch_norm(p, f"{name}.bn1", _conv(p, f"{name}.conv1", x, stride)))
    y = _batch_norm(p, f"{name}.bn2", _conv(p, f"{name}.conv2", y))
    if stride == 2:
        x = _batch_norm(p, f"{name}.around.1", _conv(p, f"{name}.around.0", x, stride))
    return jax.nn.relu(y + x)


def _resnet18(p: Arrays, x: jax.Array) -> jax.Array:
    x = jax.nn.relu(_batch_norm(p, "1", _conv(p, "0", x, 2)))
    x = jax.lax.reduce_window(
        x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0))
    )
    for number in range(4, 12):
        x = _basic_block(p, str(number), x)
    return _linear(p, "14", x.mean((1, 2)))
