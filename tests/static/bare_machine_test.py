# SPDX-License-Identifier: Apache-2.0
"""The static PAR runs on a machine with only the C library, and writes only expected files.

Only the OpenBLAS in NumPy's wheel requires libpthread.so.0, a C library file that has been empty
since glibc 2.34.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil

import pytest

from tests.robustness import namespaces, subject
from tests.static import program

_LIBC_AND_LIBM = ("libc.so.6", "libm.so.6")
_WITH_NUMPY = (*_LIBC_AND_LIBM, "libpthread.so.0")

# None in sys.modules makes `import numpy` fail, as if NumPy were not installed.
_TORCH_ALONE = """
import sys
sys.modules["numpy"] = None
import torch
torch.manual_seed(0)
network = torch.nn.Sequential(
    torch.nn.Unflatten(1, (1, 4)),
    torch.nn.Conv1d(1, 8, 4),  # a kernel that oneDNN generates at run time
    torch.nn.Tanh(),
    torch.nn.Flatten(),
    torch.nn.Linear(8, 1),
)
optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
inputs = torch.randn(64, 4)
targets = torch.linalg.inv(torch.eye(4) * 2)[0, 0] * inputs.sum(1, keepdim=True)
losses = []
for _ in range(100):
    loss = torch.nn.functional.mse_loss(network(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(losses[-1] < losses[0] / 4)
"""
_SHARED = """
import os
import torch
os.environ["TMPDIR"] = "/dev/shm"
torch.multiprocessing.set_sharing_strategy("file_system")
values = torch.multiprocessing.SimpleQueue()
values.put(torch.arange(3.0))
print(values.get().tolist())
"""
# Like namespaces.READ_ONLY_CHROOT, but with a writable /dev/shm.
_READ_ONLY_WITH_MEMORY = """
mount --bind "$1" "$1"
mount -t tmpfs none "$1/dev/shm"
mount --rbind /proc "$1/proc"
mount -o remount,bind,ro "$1"
unset PATH
exec /usr/sbin/chroot "$@"
"""
_IMPORT = "import torch; print(torch.arange(4.0).view(2, 2).exp().sum().item() > 30)"


def _root(folder: pathlib.Path, names: tuple[str, ...]) -> pathlib.Path:
    namespaces.require()
    root = namespaces.bare_root(folder / "root", names=names)
    shutil.copy(program.PAR, root / "train.par")
    return root


def _files(root: pathlib.Path) -> set[str]:
    """Return the paths of all files except sys.executable, which is a link to the PAR."""
    files = {path for path in root.rglob("*") if path.is_symlink() or not path.is_dir()}
    links = {path for path in files if path.is_symlink() and os.readlink(path) == "/train.par"}
    assert [link for link in links if link.name != "python3"] == []
    return {str(path.relative_to(root)) for path in files - links}


def _assert_trained(outcome: subject.Outcome) -> None:
    assert (outcome.status, outcome.err) == (0, "")
    accuracy = re.search(r"test accuracy (0\.\d+)", outcome.out)
    assert accuracy is not None, outcome.out
    assert float(accuracy[1]) >= 0.97


def test_torch_runs_beside_libc_and_libm_alone(tmp_path: pathlib.Path) -> None:
    """The disk is writable, but the program creates no files on it, not even in a cache."""
    root = _root(tmp_path, _LIBC_AND_LIBM)
    before = _files(root)
    command = ("/train.par", "-W", "ignore:Failed to initialize NumPy", "-c", _TORCH_ALONE)
    outcome = namespaces.run(
        namespaces.CHROOT, root, *command, environment={"PAR_INTERPRETER": "1"}, network=False
    )
    assert (outcome.status, outcome.out, outcome.err) == (0, "True\n", "")
    assert _files(root) == before


def test_it_trains_and_unpacks_nothing_of_torchs(tmp_path: pathlib.Path) -> None:
    root = _root(tmp_path, _WITH_NUMPY)
    before = _files(root)
    outcome = namespaces.run(
        namespaces.CHROOT, root, "/train.par", "--output=/tmp/run", network=False
    )
    _assert_trained(outcome)
    written = _files(root) - before
    assert {"tmp/run/checkpoint.pt", "tmp/run/loss.svg"} <= written
    unpacked = {name for name in written if not re.match(r"tmp/run(/|$)", name)}
    libraries = {name.rpartition("/")[2] for name in unpacked if ".so" in name}
    assert any(name.startswith("_multiarray_umath") for name in libraries)
    # The cache contains a directory and a lock for each bundle of files: NumPy, the C++ runtime
    # that its wheel needs, and the plotting library, which opens style sheets by path.
    bundles = {match[1] for name in unpacked if (match := re.match(r"tmp/par-\d+/\.?(\w+)", name))}
    assert bundles == {"cc_runtime", "numpy", "pygal"}


def test_with_nowhere_to_write_it_writes_nothing(tmp_path: pathlib.Path) -> None:
    """If nothing is writable, NumPy's libraries are loaded from memory."""
    root = _root(tmp_path, _WITH_NUMPY)
    before = _files(root)
    outcome = namespaces.run(
        namespaces.READ_ONLY_CHROOT, root, "/train.par", "--output=", network=False
    )
    _assert_trained(outcome)
    assert _files(root) == before


def test_memory_is_shared_with_nowhere_to_write(tmp_path: pathlib.Path) -> None:
    """torch can share memory even if it cannot create the link that starts torch_shm_manager."""
    root = _root(tmp_path, _WITH_NUMPY)
    (root / "dev" / "shm").mkdir(parents=True)
    outcome = namespaces.run(
        _READ_ONLY_WITH_MEMORY,
        root,
        *("/train.par", "-c", _SHARED),
        environment={"PAR_INTERPRETER": "1"},
        network=False,
    )
    assert (outcome.status, outcome.out, outcome.err) == (0, "[0.0, 1.0, 2.0]\n", "")


@pytest.mark.parametrize("code", ["import torch", _IMPORT])
def test_what_importing_torch_unpacks_is_numpy(code: str, tmp_path: pathlib.Path) -> None:
    """On an ordinary machine with an empty cache, importing torch unpacks only NumPy."""
    cache, home = tmp_path / "cache", tmp_path / "home"
    cache.mkdir(mode=0o700)
    home.mkdir()
    outcome = program.interpreter(cache, "-c", code, HOME=str(home), TMPDIR=str(home))
    assert (outcome.status, outcome.err) == (0, "")
    assert {name.rpartition("-")[0] for name in subject.bundles(cache)} - {"cc_runtime"} == {
        "numpy"
    }
    assert list(home.rglob("*")) == []
