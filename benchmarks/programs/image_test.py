# SPDX-License-Identifier: Apache-2.0
"""Build, unpack and start a small image with buildah and runc."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.par_startup.measure import EXPECTED
from benchmarks.programs.image import Image
from benchmarks.programs.measure import observe

# It pretends to install packages, and it runs the program only as the image's user.
_PYTHON = f"""#!/bin/sh
[ "$1" = -m ] && exit
[ "$(busybox id -u) $*" = "65532 /app/program.py" ] && echo '{EXPECTED.decode().strip()}'
"""


def _base(directory: Path, busybox: str) -> Path:
    """Write a tar file of a root file system with a shell, and with a script as `python3`."""
    root = directory / "root"
    (root / "usr/bin").mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    shutil.copy(busybox, root / "bin")
    (root / "bin/sh").symlink_to("busybox")
    (root / "bin/python3").write_text(_PYTHON)
    (root / "bin/python3").chmod(0o755)
    subprocess.run(["tar", "-cf", directory / "base.tar", "-C", root, "."], check=True)
    return directory / "base.tar"


@pytest.fixture
def image(tmp_path: Path) -> Image:
    tools = {name: shutil.which(name) for name in ("buildah", "runc", "busybox")}
    missing = [name for name, path in tools.items() if not path]
    if missing:
        pytest.skip(f"this machine lacks {' and '.join(missing)}: install Debian's packages")
    if os.geteuid():
        pytest.skip("only root can unpack an image")
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/a.whl").touch()
    return Image(
        "image",
        wheels=tmp_path / "wheels",
        base=_base(tmp_path, str(tools["busybox"])),
        runtime=str(tools["runc"]),
        directory=tmp_path / "Work",
    )


def test_an_image_is_built_once_and_unpacked_in_each_round(image: Image, tmp_path: Path) -> None:
    image.build()
    built = (tmp_path / "Work/built").stat().st_mtime_ns
    observed = observe([image], rounds=2, warm_rounds=1)["image"]
    assert 0 < observed.shipped < observed.on_disk
    assert len(observed.set_up) == len(observed.first) == 2
    image.clear()
    assert not (tmp_path / "Work/storage").exists()
    image.build()
    assert (tmp_path / "Work/built").stat().st_mtime_ns == built
