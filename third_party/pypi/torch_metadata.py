# SPDX-License-Identifier: Apache-2.0
"""Read the requirements of torch's wheel, and write a tiny stand-in wheel with the same metadata.

Without the stand-in, pip would download 190 MB to read 20 lines of metadata.
"""

from __future__ import annotations

import email
import json
import tempfile
import zipfile
from pathlib import Path

from third_party.pypi import fetch_wheel, lock, target


def read() -> tuple[str, ...]:
    """Fetch torch's pinned wheel, and return its Requires-Dist lines."""
    pin = json.loads(lock.TORCH_PIN.read_text())["wheel"]
    requirement = lock.torch_requirement(lock.TORCH_PIN.read_text())
    with tempfile.TemporaryDirectory() as scratch:
        wheel = fetch_wheel.fetch(
            fetch_wheel.Pin(
                requirement, pin["filename"], pin["sha256"], "third_party/torch/pin.json"
            ),
            Path(scratch),
            extra_index=pin.get("extra_index"),
        )
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (
                name
                for name in archive.namelist()
                if name.count("/") == 1 and name.endswith(".dist-info/METADATA")
            )
            metadata = email.message_from_bytes(archive.read(name))
    return tuple(metadata.get_all("Requires-Dist", []))


def write_stand_in(directory: Path, requirement: str, needs: tuple[str, ...]) -> Path:
    """Write a wheel of torch without code. Return its path.

    `requirement` is torch==VERSION, and `needs` lists the wheel's Requires-Dist lines.
    """
    distribution, version = requirement.split("==")
    info = f"{distribution}-{version}.dist-info"
    # The file name contains a build tag, so that pip prefers this wheel to the real one, which has
    # the same version but no build tag.
    tag = f"{target.ABI}-{target.ABI}-{target.PLATFORMS[0]}"
    files = {
        "METADATA": "".join(
            [
                f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n",
                *(f"Requires-Dist: {line}\n" for line in needs),
            ]
        ),
        "WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nBuild: 1\nTag: {tag}\n",
        "RECORD": "",
    }
    wheel = directory / f"{distribution}-{version}-1-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"{info}/{name}", text)
    return wheel
