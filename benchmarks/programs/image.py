# SPDX-License-Identifier: Apache-2.0
"""A container image that pip fills: built and unpacked by buildah, started by runc or crun."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.par_startup.measure import Peer, Sample
from benchmarks.par_startup.peers import PROGRAM
from benchmarks.programs.forms import ENVIRONMENT, PIP_OPTIONS, run, size
from third_party.pypi.fetch_wheel import sha256

_CONTAINER = "program"
_USER = 65532


class Image:
    """An image as an OCI layout. It is unpacked into an empty storage before the first start.

    base: a tar file of a root file system with Python and pip. wheels: the directory of packages.
    runtime: an OCI runtime that accepts runc's options. Only root can use this class.
    """

    def __init__(
        self, name: str, *, wheels: Path, base: Path, runtime: str, directory: Path
    ) -> None:
        self._wheels, self._base = wheels.absolute(), base
        self._directory = directory
        self._layout = directory / "layout"
        self._storage, self._bundle = directory / "storage", directory / "bundle"
        self._bundle.mkdir(parents=True, exist_ok=True)
        state = directory / "state"
        command = (runtime, f"--root={state}", "run", f"--bundle={self._bundle}", _CONTAINER)
        self._environment = {**ENVIRONMENT, "HOME": str(directory)}
        self.peer = Peer(name, command, self._environment)
        self.inputs = (self._layout,)

    def build(self) -> None:
        """Build the image, unless an earlier run built it from the same files."""
        stamp = self._directory / "built"
        recipe = _recipe(self._base, self._wheels)
        if stamp.is_file() and stamp.read_text(encoding="utf-8") == recipe:
            return
        self.clear()
        stamp.unlink(missing_ok=True)
        shutil.rmtree(self._layout, ignore_errors=True)
        context = self._directory / "context"
        shutil.rmtree(context, ignore_errors=True)
        context.mkdir()
        shutil.copy(self._base, context / "base.tar")
        shutil.copy(PROGRAM, context / "program.py")
        self._buildah(
            "bud",
            "--quiet",
            "--layers",
            "--isolation=chroot",
            f"--volume={self._wheels}:/wheels:ro",
            f"--build-arg=OPTIONS={' '.join(PIP_OPTIONS)}",
            "--tag=program",
            f"--file={Path(__file__).with_name('Containerfile')}",
            str(context),
        )
        self._buildah("push", "--quiet", "program", self._source)
        self.clear()
        shutil.rmtree(context)
        stamp.write_text(recipe, encoding="utf-8")

    def clear(self) -> None:
        if not self._storage.exists():
            return
        self._buildah("rm", "--all")
        self._buildah("rmi", "--all", "--force")
        shutil.rmtree(self._storage)

    def set_up(self) -> Sample:
        cost = self._buildah("from", "--quiet", f"--name={_CONTAINER}", self._source)
        root = self._root()
        specification = json.dumps(runtime_specification(root))
        (self._bundle / "config.json").write_text(specification, encoding="utf-8")
        return cost

    def shipped(self) -> int:
        return size(self._layout)

    def on_disk(self) -> int:
        return size(self._root())

    @property
    def _source(self) -> str:
        # The relative path becomes the image's name. A name has no capital letters.
        return f"oci:{self._layout.name}:latest"

    def _root(self) -> Path:
        command = [*self._command(), "mount", _CONTAINER]
        done = subprocess.run(
            command, env=self._environment, check=True, stdout=subprocess.PIPE, text=True
        )
        return Path(done.stdout.strip())

    def _command(self) -> list[str]:
        return [
            "buildah",
            f"--root={self._storage}",
            f"--runroot={self._directory / 'run'}",
            "--storage-driver=overlay",
        ]

    def _buildah(self, *arguments: str) -> Sample:
        command = [*self._command(), *arguments]
        return run(command, environment=self._environment, directory=self._directory)


def runtime_specification(root: Path) -> dict[str, Any]:
    """Return the configuration of a container: the program as an unprivileged user in `root`."""
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": _USER, "gid": _USER},
            "args": ["python3", "/app/program.py"],
            "env": ["PATH=/usr/bin:/bin", "HOME=/tmp"],
            "cwd": "/app",
            "noNewPrivileges": True,
            "capabilities": {},
        },
        "root": {"path": str(root), "readonly": False},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            _memory("/dev", "0755"),
            _memory("/dev/shm", "1777"),
            _memory("/tmp", "1777"),
        ],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "network")]},
    }


def _memory(path: str, mode: str) -> dict[str, Any]:
    options = ["nosuid", f"mode={mode}"]
    return {"destination": path, "type": "tmpfs", "source": "tmpfs", "options": options}


def _recipe(base: Path, wheels: Path) -> str:
    """Return a description of everything that determines the image's contents."""
    digests = [sha256(path) for path in (Path(__file__).with_name("Containerfile"), PROGRAM, base)]
    names = sorted(path.name for path in wheels.glob("*.whl"))
    return json.dumps([digests, names, PIP_OPTIONS])
