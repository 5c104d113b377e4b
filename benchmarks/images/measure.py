# SPDX-License-Identifier: Apache-2.0
"""Two ways to make an image of examples/distributed.py, and the steps that are measured."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = Path("examples/distributed.py")
_ARGUMENTS = ["--strategy=single", "--device=cpu", "--steps=1"]
_LINE = 'print("edited")\n'


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of a command in seconds. cpu: None if a server did the work, like Bazel's."""

    cpu: float | None
    wall: float


class Buildah:
    """buildah, with its own storage in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._command = [
            "buildah",
            f"--root={directory / 'storage'}",
            f"--runroot={directory / 'run'}",
            "--storage-driver=overlay",
        ]

    def run(self, *arguments: str) -> Cost:
        return run([*self._command, *arguments])

    def read(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._command, *arguments], check=True, stdout=subprocess.PIPE, text=True
        )
        return done.stdout.strip()


class Ours:
    """The image of oci_image, built by Bazel and pushed by NAME.push."""

    name = "oci_image"
    entry = "/app/distributed.par"

    def prepare(self) -> None:
        """Delete Bazel's outputs but keep its disk cache, which holds an earlier build."""
        self.build()
        run(["./bazelw", "clean"])

    def build(self) -> Cost:
        targets = ["//examples:distributed_image", "//examples:distributed_image.push"]
        cost = run(["./bazelw", "build", "--color=no", "--curses=no", *targets])
        return Cost(None, cost.wall)

    def push(self, address: str) -> Cost:
        return run(["bazel-bin/examples/distributed_image.push", address, "--no-statements"])

    @contextmanager
    def edited(self) -> Iterator[None]:
        with _edited(_ROOT / _PROGRAM):
            yield


class Pip:
    """An image built by buildah from a Containerfile, with packages that pip installs.

    context: a directory for the build, with the file requirements.txt.
    base: the name of an image in buildah's storage. options: options for `buildah bud`.
    """

    name = "pip"
    entry = "python3 -m examples.distributed"

    def __init__(self, buildah: Buildah, context: Path, base: str, options: Sequence[str]) -> None:
        self._buildah, self._context, self._options = buildah, context, options
        self._base = base
        app = context / "app"
        shutil.rmtree(app, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__", "*.par", "*_test.py")
        for folder in ("torch_google", "examples"):
            shutil.copytree(_ROOT / folder, app / folder, ignore=ignored, symlinks=True)
        data = app / "examples/data"
        shutil.copytree(_ROOT / "bazel-bin/examples/data", data, dirs_exist_ok=True)
        for path in data.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)

    def prepare(self) -> None:
        """Remove the layers of earlier runs, but not the base."""
        self._buildah.run("rmi", "--prune", "--force")

    def build(self) -> Cost:
        file = Path(__file__).with_name("Containerfile")
        options = ["--layers", "--isolation=chroot", f"--build-arg=BASE={self._base}"]
        return self._buildah.run(
            "bud", *options, *self._options, "--tag=peer", f"--file={file}", str(self._context)
        )

    def push(self, address: str) -> Cost:
        return self._buildah.run("push", "--tls-verify=false", "peer", f"docker://{address}")

    @contextmanager
    def edited(self) -> Iterator[None]:
        with _edited(self._context / "app" / _PROGRAM):
            yield


@contextmanager
def _edited(path: Path) -> Iterator[None]:
    """Append a line to a file, and restore the file at the end."""
    before = path.read_bytes()
    path.write_bytes(before + _LINE.encode())
    try:
        yield
    finally:
        path.write_bytes(before)


def pull_and_start(buildah: Buildah, address: str, entry: str, cache: Path) -> list[Cost]:
    """Return the costs of a pull, of the first start, and of the second start.

    buildah: one whose storage is empty. cache: a new directory, which is the volume /cache.
    """
    pull = buildah.run("pull", "--quiet", "--tls-verify=false", f"docker://{address}")
    container = buildah.read("from", "--pull-never", address)
    cache.mkdir()
    cache.chmod(0o777)
    command = ["run", "--isolation=chroot", f"--volume={cache}:/cache", container, "--"]
    starts = [buildah.run(*command, *entry.split(), *_ARGUMENTS) for _ in range(2)]
    buildah.run("rm", container)
    return [pull, *starts]


def stored_bytes(registry: Path) -> int:
    """Return the size of all blobs that a registry stores below `registry`."""
    return sum(path.stat().st_size for path in registry.rglob("blobs/**/data"))


def run(command: Sequence[str]) -> Cost:
    """Run a command in the workspace. Its output goes to this process's standard error."""
    start = time.monotonic()
    process = subprocess.Popen(command, cwd=_ROOT, stdout=2)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command))
    return Cost(usage.ru_utime + usage.ru_stime, time.monotonic() - start)
