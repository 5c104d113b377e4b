# SPDX-License-Identifier: Apache-2.0
"""Test that all strategies reach the same loss, even if one resumes from another's checkpoint."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

_STEPS = 6
_DEVICES = 4  # spmd uses all devices, and each rank only the first one.
_TORCHRUN = ["-m", "torch.distributed.run", "--standalone"]
_PROGRAM = ["-m", "examples.distributed"]


def _run(*flags: str, processes: int = 2) -> subprocess.CompletedProcess[str]:
    torchrun = [*_TORCHRUN, f"--nproc_per_node={processes}"] if processes > 1 else []
    command = [sys.executable, *torchrun, *_PROGRAM, *flags]
    return subprocess.run(
        command, env=_environment(), capture_output=True, text=True, check=False, timeout=600
    )


@functools.cache
def _environment() -> dict[str, str]:
    """Return an environment in which `import torch` finds and loads the device's entry point."""
    installed = Path(tempfile.mkdtemp(), "torch_google_sources-0.dist-info")
    installed.mkdir()
    (installed / "METADATA").write_text("Name: torch_google_sources\nVersion: 0\n")
    (installed / "entry_points.txt").write_text(
        "[torch.backends]\ntpu = torch_google.tpu:autoload\n"
    )
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TORCH_TPU_CPU_DEVICES": str(_DEVICES),
        "PYTHONPATH": os.pathsep.join([str(installed.parent), *filter(None, sys.path)]),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "1",
        # Compile faster, with two of the flags in torch_google/tpu/testing/quick_compiler.py.
        "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
    }


def _loss(result: subprocess.CompletedProcess[str]) -> float:
    assert result.returncode == 0, result.stderr
    losses = re.findall(r"processes on \w+: loss (\d+\.\d+)", result.stderr)
    assert len(losses) == 1, f"only the first process may log:\n{result.stderr}"
    return float(losses[0])


@functools.cache
def _alone(model: str) -> float:
    flags = [f"--model={model}", "--strategy=single", "--device=cpu", f"--steps={_STEPS}"]
    return _loss(_run(*flags, processes=1))


@pytest.mark.parametrize(
    ("model", "strategy", "device", "mode"),
    [
        ("gpt", "ddp", "tpu", "fused"),
        ("gpt", "pipeline", "tpu", "strict"),
        ("digits", "fsdp", "tpu", "strict"),
        ("digits", "2d", "tpu", "strict"),
        ("digits", "tp", "cpu", "strict"),
        ("digits", "ddp", "cpu", "strict"),
    ],
)
def test_two_processes_compute_the_losses_of_one(
    model: str, strategy: str, device: str, mode: str
) -> None:
    flags = [f"--model={model}", f"--strategy={strategy}", f"--device={device}", f"--mode={mode}"]
    loss = _loss(_run(*flags, f"--steps={_STEPS}"))
    assert loss == pytest.approx(_alone(model), abs=2e-6)


@pytest.mark.parametrize("model", ["digits", "gpt"])
def test_several_devices_compute_the_losses_of_one(model: str) -> None:
    result = _run(f"--model={model}", "--strategy=spmd", f"--steps={_STEPS}", processes=1)
    assert _loss(result) == pytest.approx(_alone(model), abs=2e-6)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((2, "fsdp", "cpu", "strict"), (1, "single", "cpu", "strict")),
        ((2, "pipeline", "cpu", "strict"), (4, "2d", "cpu", "strict")),
        ((2, "ddp", "tpu", "fused"), (2, "tp", "cpu", "strict")),
        ((1, "spmd", "tpu", "strict"), (1, "spmd", "tpu", "strict")),
    ],
)
def test_a_resumed_run_computes_the_losses_of_one(
    before: tuple[int, str, str, str], after: tuple[int, str, str, str], tmp_path: Path
) -> None:
    for steps, (processes, strategy, device, mode) in ((_STEPS // 2, before), (_STEPS, after)):
        flags = [f"--strategy={strategy}", f"--device={device}", f"--mode={mode}"]
        resume = [f"--steps={steps}", f"--checkpoint={tmp_path}"]
        loss = _loss(_run(*flags, *resume, processes=processes))
    assert loss == pytest.approx(_alone("digits"), abs=2e-6)


@pytest.mark.parametrize(
    ("flags", "processes", "complaint"),
    [
        (["--strategy=ddp"], 1, "--strategy=ddp needs several processes: start this program with"),
        (["--strategy=single"], 2, "--strategy=single, but torchrun has started 2 processes"),
        (["--strategy=spmd"], 2, "--strategy=spmd, but torchrun has started 2 processes"),
        (["--strategy=spmd", "--device=cpu"], 1, "found --device=cpu, expected tpu"),
        (["--batch_size=7"], 2, "--batch_size=7 cannot be shared by 2 processes evenly"),
    ],
)
def test_a_users_mistake_says_what_to_do(flags: list[str], processes: int, complaint: str) -> None:
    result = _run(*flags, processes=processes)
    assert result.returncode == 1
    assert complaint in result.stderr + result.stdout
