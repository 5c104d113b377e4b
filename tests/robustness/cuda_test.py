# SPDX-License-Identifier: Apache-2.0
"""A PAR with a CUDA kernel starts on a machine without an NVIDIA driver."""

from __future__ import annotations

import pathlib
import shutil
import zipfile

import pytest

from tests.robustness import namespaces, subject

_LAUNCH = """
import torch
import examples.scaled_tanh
launch = torch.ops.torch_google_examples.scaled_tanh_launch.default
keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
try:
    launch.redispatch(keys, torch.ones(1), torch.ones(1), 2.0, 0)
except RuntimeError as error:
    print(error)
"""


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    namespaces.require()
    folder = namespaces.bare_root(tmp_path / "root")
    shutil.copy(subject.packed("examples/scaled_tanh.par"), folder)
    return folder


def test_it_runs_beside_the_c_library_alone(root: pathlib.Path) -> None:
    outcome = namespaces.run(namespaces.CHROOT, root, "/scaled_tanh.par", network=False)
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("scaled_tanh on cpu: [-1.9901, ")


def test_a_launch_says_that_there_is_no_driver(root: pathlib.Path) -> None:
    outcome = namespaces.run(
        namespaces.CHROOT,
        root,
        "/scaled_tanh.par",
        "-c",
        _LAUNCH,
        environment={"PAR_INTERPRETER": "1"},
        network=False,
    )
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith(
        "scaled_tanh: this machine has no NVIDIA driver (libcuda.so.1 cannot be loaded). Install"
    )


def test_the_licence_of_the_cuda_runtime_is_packed() -> None:
    with zipfile.ZipFile(subject.packed("examples/scaled_tanh.par")) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("NVIDIA_EULA.txt")]
        assert b"libcudart_static.a" in archive.read(name)
