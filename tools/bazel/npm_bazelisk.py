# SPDX-License-Identifier: Apache-2.0
"""Provide Bazel through bazelisk, installed with the user's npm client and settings."""

from __future__ import annotations

import base64
import hashlib
import platform
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tools.bazel import command, path_bazel
from tools.bazel.launcher import Launcher, Unavailable


@dataclass(frozen=True)
class Pin:
    """An npm package: its name, its version, and the sha512 of its tarball according to npm."""

    package: str
    version: str
    sha512: str


BAZELISK = Pin(
    package="@bazel/bazelisk",
    version="1.28.1",
    sha512="K21x83NXOtd0yb2qzjMES3UV4xEWZ1q1vnXFhADA1u7I"
    "oiMVQkJAVQRK3oZ5txpnrGafY15HS+YYr2nmsEP4Tg==",
)
_MEMBERS = {
    "x86_64": "package/bazelisk-linux_amd64",
    "aarch64": "package/bazelisk-linux_arm64",
}
_NPM_SECONDS = 90


def provide(*, root: Path, version: str, cache: Path) -> Launcher:
    """Return a launcher for bazelisk from npm. Raises Unavailable if it cannot fetch Bazel."""
    program = cache / f"bazelisk-{BAZELISK.version}"
    if not program.exists():
        _fetch(program)
    try:
        launcher = path_bazel.probe(program, root=root, version=version)
    except Unavailable:
        program.unlink()
        raise
    return launcher


def _fetch(program: Path) -> None:
    member = _MEMBERS.get(platform.machine())
    if member is None:
        raise Unavailable(f"{BAZELISK.package} has no program for {platform.machine()}")
    if shutil.which("npm") is None:
        raise Unavailable("no npm")
    staging = program.parent / "staging-npm"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        _pack(staging)
        _unpack(staging, member=member, program=program)
    except command.CommandError as error:
        raise Unavailable(str(error)) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _pack(staging: Path) -> None:
    spec = f"{BAZELISK.package}@{BAZELISK.version}"
    bounds = ["--fetch-retries=1", "--fetch-timeout=20000", "--no-update-notifier"]
    command.run(["npm", "pack", "--silent", *bounds, spec], seconds=_NPM_SECONDS, cwd=staging)


def _unpack(staging: Path, *, member: str, program: Path) -> None:
    (tarball,) = staging.glob("*.tgz")
    digest = base64.b64encode(hashlib.sha512(tarball.read_bytes()).digest()).decode()
    if digest != BAZELISK.sha512:
        raise Unavailable(
            f"npm gave {BAZELISK.package}@{BAZELISK.version} with sha512 {digest}, "
            f"expected {BAZELISK.sha512}"
        )
    with tarfile.open(tarball) as archive:
        source = archive.extractfile(member)
        if source is None:
            raise Unavailable(f"{BAZELISK.package}@{BAZELISK.version} has no file {member}")
        staged = staging / "bazelisk"
        staged.write_bytes(source.read())
    staged.chmod(0o755)
    staged.replace(program)
