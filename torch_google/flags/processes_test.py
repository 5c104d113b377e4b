# SPDX-License-Identifier: Apache-2.0
"""Every child process inherits its parent's options, whatever the start method."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = '''
import json, multiprocessing, os, subprocess, sys
from absl import app, flags as absl_flags
from torch_google import flags

flags.define()
HOW = absl_flags.DEFINE_string("how", None, "How to start a process.", required=True)
WORKERS = absl_flags.DEFINE_integer("workers", 1, "How many.")

CODE = """
import json, os, torch, torch._inductor.config as config
print(json.dumps([config.compile_threads, config.triton.cudagraphs, os.environ["TORCH_HOME"]]))
"""

def read():
    import torch, torch._inductor.config as config
    return [config.compile_threads, config.triton.cudagraphs, os.environ["TORCH_HOME"]]

def elastic():
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=WORKERS.value, run_id="test", max_restarts=0,
        rdzv_backend="c10d", rdzv_endpoint="localhost:0", start_method="spawn",
    )
    return list(elastic_launch(config, read)().values())

def main(argv):
    how = HOW.value
    if how == "none":
        values = [read()]
    elif how == "subprocess":
        values = [json.loads(subprocess.check_output([sys.executable, "-c", CODE]))]
    elif how == "elastic":
        values = elastic()
    else:
        with multiprocessing.get_context(how).Pool(WORKERS.value) as pool:
            values = [pool.apply(read) for _ in range(WORKERS.value)]
    # Write the line in one call, because torchrun's workers share the pipe.
    os.write(1, ("read " + json.dumps(values) + chr(10)).encode())

if __name__ == "__main__":
    app.run(main)
'''
_FLAGS = (
    "--torch_inductor_compile_threads=3",
    "--torch_inductor_triton_cudagraphs",
    "--torch_home=/somewhere",
)
_VALUES = [3, True, "/somewhere"]


@pytest.fixture(name="program")
def _program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(_PROGRAM, encoding="utf-8")
    return path


def _read(*command: str | Path) -> list[list[object]]:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    return [
        value
        for line in done.stdout.splitlines()
        if line.startswith("read ")
        for value in json.loads(line.removeprefix("read "))
    ]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver", "subprocess"])
def test_a_process_has_the_options_of_the_one_that_started_it(program: Path, method: str) -> None:
    assert _read(program, f"--how={method}", *_FLAGS) == [_VALUES]


def test_elastic_launch_takes_its_configuration_from_flags(program: Path) -> None:
    assert _read(program, "--how=elastic", "--workers=2", *_FLAGS) == [_VALUES, _VALUES]


@pytest.mark.full
def test_torchrun_leaves_the_flags_of_its_program_alone(program: Path) -> None:
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    assert _read(*torchrun, program, "--how=none", *_FLAGS) == [_VALUES, _VALUES]
