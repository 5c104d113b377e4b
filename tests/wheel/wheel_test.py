# SPDX-License-Identifier: Apache-2.0
"""The torch_google wheel works with torch's published wheel, without the source tree."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_RUNFILES = Path(__file__).parents[3]


def _only(paths: Iterator[Path]) -> Path:
    (path,) = paths
    return path


def _wheel() -> Path:
    return _only(_RUNFILES.glob("*/torch_google/torch_google-*.whl"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a directory with both wheels unpacked, as pip would install them."""
    directory = tmp_path_factory.mktemp("site")
    for wheel in (_wheel(), _only(_RUNFILES.glob("*torch_wheel/torch-*.whl"))):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(directory)
    yield directory
    shutil.rmtree(directory)  # The directory takes up half a gigabyte.


def _run(site: Path, program: str) -> str:
    start = f"import sys; sys.path.insert(0, {str(site)!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", start + program],
        capture_output=True,
        text=True,
        check=False,
        cwd=site,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_holds_what_runs_and_nothing_else() -> None:
    with zipfile.ZipFile(_wheel()) as archive:
        names = archive.namelist()
    assert "torch_google/tpu/_C.so" in names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"torch_google"}
    assert not [name for name in names if re.search(r"test|conftest|develop|/csrc/", name)]
    assert {Path(name).suffix for name in names if name.startswith("torch_google/")} == {
        ".json",
        ".py",
        ".so",
    }


def test_import_torch_is_enough_and_quiet(site: Path) -> None:
    program = (
        "import torch\n"
        "print('jax' in sys.modules, torch.tpu.is_initialized(), torch.__file__.split('/')[-3])\n"
        "x = torch.randn(16, 16, device='tpu', requires_grad=True)\n"
        "(x @ x).sum().backward()\n"
        "print(x.grad.device)"
    )
    assert _run(site, program) == f"False False {site.name}\ntpu:0"


@pytest.mark.full
def test_torch_compile_knows_the_backend(site: Path) -> None:
    program = "import torch._dynamo; print('tpu' in torch._dynamo.list_backends())"
    assert _run(site, program) == "True"


def test_what_it_requires_is_what_the_workspace_pins(site: Path) -> None:
    program = (
        "from importlib.metadata import requires, version\n"
        "needs = [need.split('==') for need in requires('torch_google') if '==' in need]\n"
        "print(sorted(name for name, _ in needs),"
        " all(version(name).partition('+')[0] == wanted for name, wanted in needs))"
    )
    assert _run(site, program) == "['jax', 'jaxlib', 'torch'] True"
