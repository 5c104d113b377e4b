# SPDX-License-Identifier: Apache-2.0
"""User programs in separate processes share a compile cache, even if its files are damaged."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.par.testing.budget import is_full

_PROCESSES = 8 if is_full() else 3
_PROGRAM = """
import json, resource, sys, warnings
if len(sys.argv) > 1:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import torch
    from torch_google.tpu import autoload
    autoload()
    x = torch.arange(6.0).reshape(2, 3).to("tpu").requires_grad_()
    (x @ x.t()).exp().sum().log().backward()
    numbers = x.grad.tolist()
done = torch.tpu.metrics()
said = [str(w.message) for w in seen if "compile cache" in str(w.message)]
print(json.dumps([numbers, done.compiles, done.disk_hits, said]))
"""


@dataclass(frozen=True)
class _Done:
    numbers: list[list[float]]
    compiles: int
    hits: int
    warnings: list[str]


def _start(location: object, *arguments: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TORCH_TPU_COMPILE_CACHE": str(location),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _end(process: subprocess.Popen[str]) -> _Done:
    printed, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    return _Done(*json.loads(printed))


def _run(location: object, *arguments: str) -> _Done:
    return _end(_start(location, *arguments))


def _entries(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def _cut(path: Path) -> None:
    os.truncate(path, 60)


def _random(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def _of_a_later_version(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"program 3\n", b"program 4\n", 1))


def _emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, _Done]:
    """Return a cache that several processes filled concurrently, and the output of one process."""
    directory = tmp_path_factory.mktemp("filled")
    first, *others = [_end(process) for process in [_start(directory) for _ in range(_PROCESSES)]]
    for done in (first, *others):
        assert (done.numbers, done.warnings) == (first.numbers, [])
    assert not [path for path in _entries(directory) if path.name.startswith(".")]
    return directory, first


@pytest.mark.full
def test_after_many_at_once_the_next_compiles_nothing(filled: tuple[Path, _Done]) -> None:
    directory, first = filled
    done = _run(directory)
    assert (done.numbers, done.compiles, done.warnings) == (first.numbers, 0, [])
    assert done.hits == len(_entries(directory))


@pytest.mark.full
def test_damage_costs_time_and_one_warning(tmp_path: Path, filled: tuple[Path, _Done]) -> None:
    directory, first = filled
    damages = itertools.cycle((_cut, _random, _of_a_later_version, _emptied))
    for path, damage in zip(_entries(directory), damages, strict=False):
        copy = tmp_path / path.relative_to(directory)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(path.read_bytes())
        damage(copy)
    done = _run(tmp_path)
    assert (done.numbers, done.hits, len(done.warnings)) == (first.numbers, 0, 1)
    assert done.compiles > 0
    done = _run(tmp_path)  # the damaged entries have been replaced
    assert (done.numbers, done.compiles, done.warnings) == (first.numbers, 0, [])


_TWO_DEVICES = """
import torch
from torch_google.tpu import autoload
autoload()

def train(device):
    x = torch.arange(6.0).reshape(2, 3).to(device).requires_grad_()
    (x @ x.t()).exp().sum().log().backward()
    return x.grad.tolist(), torch.tpu.metrics().compiles

numbers, compiles = train("tpu:0")
assert compiles > 0
assert train("tpu:1") == (numbers, compiles)
"""


def test_a_program_for_one_device_is_loaded_on_another(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TORCH_TPU_COMPILE_CACHE": str(tmp_path),
        "TORCH_TPU_CPU_DEVICES": "2",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
    subprocess.run([sys.executable, "-c", _TWO_DEVICES], env=environment, check=True, timeout=240)


_LINEAR_ALGEBRA = """
import sys
import torch
from torch_google.tpu import autoload
autoload()

x = torch.tensor([[4.0, 1.0], [1.0, 3.0]]).to("tpu")
cases = {
    "cholesky": torch.linalg.cholesky,
    "eigh": torch.linalg.eigh,
    "eig": torch.linalg.eig,
    "geqrf": torch.geqrf,
    "qr": torch.linalg.qr,
    "solve": lambda x: torch.linalg.solve(x, x),
    "solve_triangular": lambda x: torch.linalg.solve_triangular(x, x, upper=True),
    "svd": torch.linalg.svd,
}
results = cases[sys.argv[1]](x)
for result in results if isinstance(results, tuple) else (results,):
    print(result.tolist())
print(torch.tpu.metrics().compiles)
"""


@pytest.mark.parametrize(
    "case",
    [
        "svd",
        *(
            pytest.param(case, marks=pytest.mark.full)
            for case in ("cholesky", "eigh", "eig", "geqrf", "qr", "solve", "solve_triangular")
        ),
    ],
)
def test_loaded_linear_algebra_runs(tmp_path: Path, case: str) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TORCH_TPU_COMPILE_CACHE": str(tmp_path),
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    }
    program = [sys.executable, "-c", _LINEAR_ALGEBRA, case]
    first, second = (
        subprocess.run(
            program, env=environment, check=True, timeout=240, stdout=subprocess.PIPE, text=True
        ).stdout.split("\n")[:-1]
        for _ in range(2)
    )
    assert first[:-1] == second[:-1] != []
    assert int(first[-1]) > int(second[-1]) == 0


@pytest.mark.full
def test_a_path_that_is_a_file_costs_time_and_one_warning(
    tmp_path: Path, filled: tuple[Path, _Done]
) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    done = _run(tmp_path / "file")
    assert (done.numbers, done.hits, len(done.warnings)) == (filled[1].numbers, 0, 1)
    assert (tmp_path / "file").read_bytes() == b"mine"


@pytest.mark.full
def test_where_files_may_not_grow_nothing_is_left_behind(
    tmp_path: Path, filled: tuple[Path, _Done]
) -> None:
    done = _run(tmp_path, "3000")
    assert done.numbers == filled[1].numbers
    assert len(done.warnings) == 1
    assert "cannot be written: [Errno 27] File too large" in done.warnings[0]
    assert all(path.stat().st_size < 3000 for path in _entries(tmp_path))
    assert not [path for path in _entries(tmp_path) if path.name.startswith(".")]


@pytest.mark.full
def test_a_url_is_a_place(tmp_path: Path, filled: tuple[Path, _Done]) -> None:
    url = f"file://{tmp_path}/url"
    done = _run(url)
    assert (done.numbers, done.warnings) == (filled[1].numbers, [])
    assert _run(url).compiles == 0
