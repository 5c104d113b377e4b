# SPDX-License-Identifier: Apache-2.0
"""Tests that `import torch` registers the device without initializing it, if it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return a directory for sys.path in which the package's entry point is installed."""
    info = tmp_path / "torch_google_entry-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_google_entry\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\ntpu = torch_google.tpu:autoload\n")
    return tmp_path


def _run(installed: Path, program: str, **environment: str) -> list[str]:
    """Run a program and return the lines of its output and the warnings in its stderr."""
    start = f"import sys; sys.path[:0] = {[str(installed), *sys.path]}\n"
    done = subprocess.run(
        [sys.executable, "-c", start + program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    warned = [line for line in done.stderr.splitlines() if "Warning: " in line]
    return done.stdout.splitlines() + warned


def test_import_torch_registers_and_starts_nothing(installed: Path) -> None:
    program = (
        "import torch\n"
        "print('jax' in sys.modules, torch.tpu.is_initialized(),"
        " torch.accelerator.current_accelerator())"
    )
    assert _run(installed, program) == ["False False tpu"]


def test_it_brings_no_packages_but_its_own(installed: Path) -> None:
    program = "import torch; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    without = _run(installed, program, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    with_it = _run(installed, program)
    more = set(with_it[0].split()) - set(without[0].split())
    foreign = {name for name in more if name not in sys.stdlib_module_names}
    assert foreign == {"torch_google"}


@pytest.mark.full
def test_it_loads_no_more_of_torch_distributed(installed: Path) -> None:
    program = "import torch; print(*sorted(name for name in sys.modules if 'distributed' in name))"
    without = _run(installed, program, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert _run(installed, program) == without
    program = "import torch; print(torch.distributed.get_default_backend_for_device('tpu'))"
    assert _run(installed, program) == ["tpu"]


@pytest.mark.parametrize(
    "module",
    [
        "torch_google.tpu",
        "torch_google.tpu.device_module.tpu",
        "torch_google.tpu.lowerings.matmul",
    ],
)
def test_any_module_may_come_first(installed: Path, module: str) -> None:
    program = f"import {module}; import torch; print(torch.tpu.is_initialized())"
    assert _run(installed, program) == ["False"]


def test_without_jax_the_first_use_says_so(installed: Path) -> None:
    program = (
        "sys.modules['jax'] = None\n"
        "import torch\n"
        "print(torch.ones(2) + 1)\n"
        "try:\n"
        "    torch.ones(2, device='tpu')\n"
        "except ImportError as error:\n"
        "    print(error)"
    )
    values, complaint = _run(installed, program)
    assert values == "tensor([2., 2.])"
    assert complaint.startswith("tpu: the device runs on JAX, which is not installed")
    assert complaint.endswith("pip install torch_google")


def test_a_torch_that_it_was_not_built_for_works_without_the_device(installed: Path) -> None:
    program = (
        "sys.modules['torch_google.tpu._C'] = None\n"
        "import torch\n"
        "print((torch.ones(2) + 1).tolist(), hasattr(torch, 'tpu'))"
    )
    values, warning = _run(installed, program)
    assert values == "[2.0, 2.0] False"
    assert "tpu: torch goes on without the device: " in warning


def test_another_backend_was_first(installed: Path) -> None:
    program = (
        "import torch\n"
        "torch.utils.rename_privateuse1_backend('abacus')\n"
        "from torch_google.tpu import autoload\n"
        "autoload()\n"
        "print(torch._C._get_privateuse1_backend_name())"
    )
    name, warning = _run(installed, program, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert name == "abacus"
    assert "one backend of this kind only" in warning
