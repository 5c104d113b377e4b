# SPDX-License-Identifier: Apache-2.0
"""torch.compile works in the static PAR, with the host's compiler and the archive's headers.

Inductor builds each kernel as a shared library, but there is no libtorch to link it against.
Instead, the interpreter exports the functions that kernels call: Sleef's vector functions and, for
models compiled ahead of time, torch's C interface.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from typing import Any

import pytest

from tests.robustness import subject
from tests.static import program

needs_a_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="Inductor needs a C++ compiler: this machine has no g++"
)

_KERNEL = """
import json, os, torch
from torch._inductor import cpu_vec_isa

def model(x, y):
    z = (x.exp() + y.tanh() * x.sin()).to(torch.bfloat16).float()
    return torch.softmax(z, 1), z.sum(0), torch.where(x > 0, x, y).erf().log1p()

x = torch.rand(33, 65, requires_grad=True)
y = torch.rand(33, 65)
compiled = torch.compile(model, fullgraph=True)
results, references = compiled(x, y), model(x, y)
(gradient,) = torch.autograd.grad(results[0].square().sum() + results[2].sum(), x)
(expected,) = torch.autograd.grad(references[0].square().sum() + references[2].sum(), x)
for got, want in zip((*results, gradient), (*references, expected)):
    # A kernel does not round intermediate values to bfloat16, but keeps them in registers.
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-3)
with open("/proc/self/maps") as maps:
    paths = {line.split()[-1] for line in maps if ".so" in line}
kernels = [path for path in paths if path.startswith(os.environ["TORCHINDUCTOR_CACHE_DIR"])]
print(json.dumps({
    "kernels": len(kernels),
    "libraries": sorted(os.path.basename(path) for path in paths),
    "supported": torch.cpu._is_avx2_supported(),
    "vectors": str(cpu_vec_isa.pick_vec_isa()),
}))
"""
_ONEDNN = """
import torch
from torch._inductor import config
from torch._inductor.utils import run_and_get_code

torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()).eval()
x = torch.randn(2, 3, 9, 9)
with torch.no_grad(), config.patch(freezing=True):
    result, (code,) = run_and_get_code(torch.compile(network), x)
    torch.testing.assert_close(result, network(x))
assert "mkldnn._convolution_pointwise" in code, code
"""
_AHEAD_OF_TIME = """
import sys, torch

class Affine(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv1d(1, 3, 5)
        self.linear = torch.nn.Linear(12, 4)

    def forward(self, x):
        return torch.relu(self.linear(self.convolution(x[:, None]).flatten(1))).exp() * 2 + 1

torch.manual_seed(0)
network, x = Affine(), torch.linspace(-1, 1, 16).view(2, 8)
with torch.no_grad():
    exported = torch.export.export(network, (x,))
    package = torch._inductor.aoti_compile_and_package(exported, package_path=sys.argv[1])
    torch.testing.assert_close(torch._inductor.aoti_load_package(package)(x), network(x))
"""


def _run(
    folder: pathlib.Path, *arguments: str | os.PathLike[str], **environment: str
) -> subject.Outcome:
    return program.interpreter(
        folder / "cache",
        *arguments,
        HOME=str(folder),
        TMPDIR=str(folder),
        TORCHINDUCTOR_CACHE_DIR=str(folder / "inductor"),
        **environment,
    )


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    outcome = _run(tmp_path_factory.mktemp("kernel"), "-c", _KERNEL)
    assert outcome.status == 0, outcome.err
    result: dict[str, Any] = json.loads(outcome.out.splitlines()[-1])
    return result


@needs_a_compiler
def test_a_kernel_is_compiled_and_loaded(compiled: dict[str, Any]) -> None:
    assert compiled["kernels"] > 0
    assert [name for name in compiled["libraries"] if name.startswith(("libtorch", "libc10"))] == []


@needs_a_compiler
def test_a_kernel_has_vectors(compiled: dict[str, Any]) -> None:
    """Kernels are vectorized only on machines with AVX2, which this build's Sleef requires."""
    assert compiled["vectors"] == ("avx2" if compiled["supported"] else "INVALID_VEC_ISA")


@needs_a_compiler
def test_a_convolution_and_its_activation_are_one_call_of_onednn(tmp_path: pathlib.Path) -> None:
    outcome = _run(tmp_path, "-c", _ONEDNN)
    assert outcome.status == 0, outcome.err


@needs_a_compiler
def test_a_model_is_compiled_ahead_of_time_and_runs(tmp_path: pathlib.Path) -> None:
    outcome = _run(tmp_path, "-c", _AHEAD_OF_TIME, tmp_path / "affine.pt2")
    assert outcome.status == 0, outcome.err


def test_without_a_compiler_it_says_so(tmp_path: pathlib.Path) -> None:
    outcome = _run(tmp_path, "-c", _KERNEL, PATH=str(tmp_path))
    assert outcome.status == 1
    assert "InvalidCxxCompiler: No working C++ compiler found" in outcome.err
