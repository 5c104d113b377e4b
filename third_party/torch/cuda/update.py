#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pin the CUDA wheel of the release in third_party/torch/pin.json.

    third_party/torch/cuda/update.py

The script downloads the wheel (half a gigabyte) with pip, and checks that it was built from the
pinned commit. Then it writes pin.json, and writes the packages that only this wheel requires to
third_party/pypi/groups/torch_cuda.in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

if not __package__:  # Started by its path, so the workspace's root is not on sys.path.
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from third_party.pypi import fetch_wheel, host_pip, lock, target
from third_party.torch.cuda import wheel_metadata
from third_party.torch.cuda.wheel_metadata import WheelError, WheelMetadata

PIN = Path(__file__).parent / "pin.json"
GROUP = lock.FILE.parent / "groups" / "torch_cuda.in"
_HEAD = """\
# The packages that torch's CUDA wheel requires and its CPU wheel does not: NVIDIA's libraries, and
# Triton, the compiler that torch.compile uses on GPUs. third_party/torch/cuda/update.py writes this.
"""


def main() -> int:
    release = json.loads(lock.TORCH_PIN.read_text())
    version = release["version"].partition("+")[0]
    try:
        with tempfile.TemporaryDirectory() as scratch:
            wheel = download(version, Path(scratch))
            metadata = wheel_metadata.read(wheel)
            needs = lock.loads(lock.FILE.read_text()).torch_needs
            pin = pin_of(release, wheel.name, fetch_wheel.sha256(wheel), metadata, needs)
    except (WheelError, host_pip.NoPipError, OSError, zipfile.BadZipFile) as error:
        print(f"third_party/torch/cuda/update.py: {error}", file=sys.stderr)
        return 1
    PIN.write_text(json.dumps(pin, indent=2) + "\n")
    GROUP.write_text(_HEAD + "".join(f"{line}\n" for line in metadata_lines(pin)))
    print(f"{PIN.name}: torch {metadata.version}. Next: third_party/pypi/update.py")
    return 0


def download(version: str, directory: Path) -> Path:
    """Download torch's wheel of exactly this version. Raises a WheelError if pip fails."""
    command = [
        *host_pip.find().argv,
        *("download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-input"),
        *target.pip_options(),
        f"--dest={directory}",
        f"torch==={version}",  # `==` would also match, and prefer, VERSION+cpu
    ]
    environment = {**os.environ, "PIP_REQUIRE_VIRTUALENV": "0", "PIP_CONSTRAINT": ""}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wheels = list(directory.glob("torch-*.whl"))
    if result.returncode or len(wheels) != 1:
        lines = result.stderr.strip().splitlines() or [f"pip exited {result.returncode}"]
        raise WheelError(f"torch==={version}: {lines[-1]}. Check the indexes that pip uses")
    return wheels[0]


def pin_of(
    release: dict[str, str],
    filename: str,
    sha256: str,
    metadata: WheelMetadata,
    cpu_needs: tuple[str, ...],
) -> dict[str, object]:
    """Return the contents of pin.json.

    Raises a WheelError if the wheel was not built from the commit of `release`.
    """
    if metadata.commit != release["commit"]:
        raise WheelError(
            f"{filename}: built from commit {metadata.commit}, but third_party/torch/pin.json has"
            f" {release['commit']}. Pin a release whose two wheels have one commit"
        )
    return {
        "tag": release["tag"],
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


def metadata_lines(pin: dict[str, object]) -> list[str]:
    """Return the requirement lines of the `torch_cuda` group."""
    requires = pin["requires"]
    assert isinstance(requires, list)
    return [str(line) for line in requires]


if __name__ == "__main__":
    sys.exit(main())
