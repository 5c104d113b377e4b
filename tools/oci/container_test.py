# SPDX-License-Identifier: Apache-2.0
"""Run images with runc, as an unprivileged user on a read-only root file system."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tools.oci.testing.reader import File, Image, read_image

_TESTING = Path(__file__).parent / "testing"


@pytest.fixture(scope="module")
def runc() -> str:
    program = shutil.which("runc")
    if program is None:
        return pytest.skip("this machine has no runc: `apt-get install runc`")
    if os.geteuid() != 0:
        pytest.skip("only root can start a container with other users")
    return program


@pytest.fixture(scope="module")
def image() -> Image:
    return read_image(_TESTING / "hello_image")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, image: Image) -> Path:
    directory = tmp_path_factory.mktemp("bundle") / "root"
    for path, file in image.files().items():
        _unpack(directory, path, file)
    return directory


def _unpack(root: Path, path: str, file: File) -> None:
    target = root / path.lstrip("/")
    if file.kind == "directory":
        target.mkdir(parents=True, exist_ok=True)
    elif file.kind == "link":
        target.symlink_to(file.target)
        return
    elif file.kind == "hard link":
        target.hardlink_to(root / file.target)
        return
    else:
        target.write_bytes(file.data)
    os.chown(target, *file.owner)
    target.chmod(file.mode)


def _mount(path: str, mode: str) -> dict[str, Any]:
    return {
        "destination": path,
        "type": "tmpfs",
        "source": "tmpfs",
        "options": ["nosuid", f"mode={mode}"],
    }


# The file systems that every container engine mounts.
_SYSTEM = [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    _mount("/dev", "0755"),
    _mount("/dev/shm", "1777"),
]


def _run(
    runc: str, root: Path, image: Image, *arguments: str, mounts: list[dict[str, Any]], **env: str
) -> subprocess.CompletedProcess[str]:
    config = image.config["config"]
    user, group = (int(number) for number in config["User"].split(":"))
    specification = {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": user, "gid": group},
            "args": [*config["Entrypoint"], *arguments],
            "env": [*config["Env"], *(f"{name}={value}" for name, value in env.items())],
            "cwd": config["WorkingDir"],
            "noNewPrivileges": True,
            "capabilities": {},
        },
        "root": {"path": str(root), "readonly": True},
        "mounts": [*_SYSTEM, *mounts],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "network")]},
    }
    (root.parent / "config.json").write_text(json.dumps(specification))
    name = f"torch-google-{os.getpid()}"
    return subprocess.run(
        [runc, f"--root={root.parent}/state", "run", f"--bundle={root.parent}", name],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def volumes(tmp_path: Path) -> list[dict[str, Any]]:
    """Return mounts like Kubernetes' emptyDir: owned by root, and writable by every user."""
    mounts = []
    for path in ("/cache", "/tmp"):
        source = tmp_path / path.strip("/")
        source.mkdir()
        source.chmod(0o777)
        mounts.append(
            {"destination": path, "type": "bind", "source": str(source), "options": ["bind", "rw"]}
        )
    return mounts


def test_the_program_runs_without_rights(
    runc: str, root: Path, image: Image, volumes: list[dict[str, Any]]
) -> None:
    done = _run(runc, root, image, "a", mounts=volumes)
    assert (done.returncode, done.stderr) == (0, "")
    seen = json.loads(done.stdout)
    assert seen["libraries"].startswith("/cache/par/numpy-")
    del seen["libraries"]
    assert seen == {
        "arguments": ["a"],
        "cache": "/cache/par",
        "file": "/app/hello.par/tools/oci/testing/hello.py",
        "localhost": "127.0.0.1",
        "shell": False,
        "squares": [9],
        "sum": 45,
        "uid": 65532,
        "user": "nonroot",
        "writable": ["/cache", "/tmp"],
    }


def test_a_program_without_doors_uses_the_same_cache(
    runc: str, root: Path, image: Image, volumes: list[dict[str, Any]]
) -> None:
    closed = json.loads(json.dumps(image.config))
    closed["config"]["Entrypoint"] = ["/app/closed.par"]
    other = Image(image.digest, image.manifest, closed, image.layers)
    done = _run(runc, root, other, mounts=volumes)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["libraries"].startswith("/cache/par/numpy-")


def test_a_missing_volume_is_one_line(
    runc: str, root: Path, image: Image, volumes: list[dict[str, Any]]
) -> None:
    done = _run(runc, root, image, mounts=volumes[1:])
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1
    assert "PAR_CACHE_DIR=/cache/par: not usable (Read-only file system)" in done.stderr


def test_doors_open(runc: str, root: Path, image: Image, volumes: list[dict[str, Any]]) -> None:
    done = _run(runc, root, image, mounts=volumes, PAR_INFO="1", PAR_VERIFY="1")
    assert json.loads(done.stdout)["path"] == "/app/hello.par"
