# SPDX-License-Identifier: Apache-2.0
"""Test that the plain JAX workloads compute the same results as torch, so times are comparable."""

from __future__ import annotations

import pytest

from benchmarks.tpu_eager import pure_jax
from benchmarks.tpu_eager.torch_peers import Torch
from tools.par.testing.budget import only_full


@pytest.mark.parametrize("name", ["mlp", "tiny_gpt", *only_full("gpt")])
def test_training_follows_torch(name: str) -> None:
    jax_step, torch_step = pure_jax.train(name), Torch("torch").train(name)
    for _ in range(3):
        assert jax_step() == pytest.approx(torch_step(), rel=2e-4)


@pytest.mark.full
def test_inference_is_torch_s() -> None:
    jax_run, torch_run = pure_jax.infer("resnet18"), Torch("torch").infer("resnet18")
    assert jax_run() == pytest.approx(torch_run(), rel=1e-3, abs=0.05)


def test_adding() -> None:
    run, wait = pure_jax.add()
    run()
    wait()
