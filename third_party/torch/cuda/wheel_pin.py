# SPDX-License-Identifier: Apache-2.0
"""Make the pin of a torch wheel for CUDA: download it, and check the commit it was built from."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from third_party.pypi import fetch_wheel, host_pip, lock, target
from third_party.torch.cuda import wheel_metadata
from third_party.torch.cuda.wheel_metadata import WheelError, WheelMetadata


@dataclass(frozen=True)
class Release:
    """A release of torch. `file` is the workspace path of the file that records the commit."""

    tag: str
    commit: str
    file: str


def make(release: Release) -> dict[str, object]:
    """Return the contents of pin.json. Downloads the wheel, half a gigabyte, with pip.

    Raises a WheelError if pip fails or if the wheel has another commit.
    """
    needs = lock.loads(lock.FILE.read_text()).torch_needs
    with tempfile.TemporaryDirectory() as scratch:
        wheel = _download(release.tag.removeprefix("v"), Path(scratch))
        metadata = wheel_metadata.read(wheel)
        return pin_of(release, wheel.name, fetch_wheel.sha256(wheel), metadata, needs)


def pin_of(
    release: Release,
    filename: str,
    sha256: str,
    metadata: WheelMetadata,
    cpu_needs: tuple[str, ...],
) -> dict[str, object]:
    """Return the contents of pin.json for a wheel that has been read.

    `cpu_needs` are the Requires-Dist lines of the pinned CPU wheel: the pin has only other lines.
    Raises a WheelError if the wheel was not built from the commit of `release`.
    """
    if metadata.commit != release.commit:
        raise WheelError(
            f"{filename}: built from commit {metadata.commit}, but {release.file} has"
            f" {release.commit}. Import the release whose commit the wheel has"
        )
    return {
        "tag": release.tag,
        "commit": metadata.commit,
        "version": metadata.version,
        "cuda": metadata.cuda,
        "wheel": {
            "version": filename.split("-")[1],
            "filename": filename,
            "sha256": sha256,
        },
        "requires": list(wheel_metadata.added_requirements(metadata.requires, cpu_needs)),
    }


def _download(version: str, directory: Path) -> Path:
    """Download torch's wheel of exactly this version. Raises a WheelError if pip fails."""
    command = [
        *host_pip.find().argv,
        *("download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-input"),
        *target.pip_options(),
        f"--dest={directory}",
        f"torch==={version}",  # `==` would also match, and prefer, VERSION+cpu
    ]
    environment = host_pip.environment()
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wheels = list(directory.glob("torch-*.whl"))
    if result.returncode or len(wheels) != 1:
        lines = result.stderr.strip().splitlines() or [f"pip exited {result.returncode}"]
        raise WheelError(f"torch==={version}: {lines[-1]}. Check the indexes that pip uses")
    return wheels[0]
