# SPDX-License-Identifier: Apache-2.0
"""Test support: small wheels, git repositories and projects on disk."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tools.importer.project import Project, load_project

COMMIT = "5c4886908584029761b579af026dcfb627c84070"

GIT_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}

_CONTENTS = {
    "roots": ["torch", "torchgen"],
    "built": ["torch/version.py", "torch/lib/*", "torchgen/packaged/*"],
    "left_out": ["torch/csrc/*"],
}


class Lines:
    """A Report that records its lines."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.steps: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    @contextmanager
    def progress(self, label: str, total: int | None = None) -> Iterator[Lines]:
        self.steps.append(label)
        yield self

    def advance(self, n: int = 1) -> None:
        """Do nothing."""

    def result(self, data: Mapping[str, object]) -> None:
        """Do nothing."""


def make_project(root: Path, **origins: Mapping[str, str]) -> Project:
    """Create a project in a workspace at `root`, with `origins` in its import.json."""
    directory = root / "third_party" / "torch"
    directory.mkdir(parents=True)
    (directory / "contents.json").write_text(json.dumps(_CONTENTS))
    settings = {
        "name": "torch",
        "builder": "torch_wheel",
        "pin": "third_party/torch/pin.json",
        "series": "patches/torch",
        "metadata": "third_party/torch/METADATA",
        "origins": origins,
    }
    (directory / "import.json").write_text(json.dumps(settings))
    return load_project(root)


def wheel_settings(**more: str) -> dict[str, str]:
    """Return the settings in import.json for the wheels that make_wheel writes."""
    contents = "third_party/torch/contents.json"
    return {"project": "torch", "local_version": "cpu", "contents": contents, **more}


def make_wheel(
    directory: Path,
    version: str,
    tags: str = "cp311-cp311-manylinux_2_28_x86_64",
    *,
    files: Mapping[str, bytes] | None = None,
    cuda: str = "None",
) -> Path:
    """Write a wheel that pip accepts, with `files` in addition to the default files."""
    info = f"torch-{version}.dist-info"
    stamp = f"__version__ = '{version}'\ncuda: Optional[str] = {cuda}\ngit_version = '{COMMIT}'\n"
    members = {
        "torch/__init__.py": b"x = 1\n",
        "torch/version.py": stamp.encode(),
        "torch/lib/libtorch.so": b"\x7fELF",
        "torch/data.json": b"{}",
        "torchgen/packaged/native.yaml": b"built",
        **(files or {}),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tags}\n".encode(),
    }
    rows = [f"{name},{_record_hash(data)},{len(data)}" for name, data in members.items()]
    members[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"torch-{version}-{tags}.whl"
    with zipfile.ZipFile(path, "w") as packed:
        for name, data in members.items():
            packed.writestr(name, data)
    return path


def git(repository: Path, *arguments: str) -> str:
    """Run git in `repository` without user configuration, and return its output."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    result = subprocess.run(
        ["git", *arguments],
        cwd=repository,
        env={**plain, **GIT_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.strip()


def commit_files(repository: Path, files: Mapping[str, bytes | None], tag: str = "") -> str:
    """Write files (None deletes one), commit them, tag the commit, and return its id."""
    if not (repository / ".git").exists():
        repository.mkdir(parents=True, exist_ok=True)
        git(repository, "init", "--quiet", "--initial-branch=main")
    for name, data in files.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if data is None:
            path.unlink()
        else:
            path.write_bytes(data)
    git(repository, "add", "--all", "--force")
    git(repository, "commit", "--quiet", "--allow-empty", "--message=change")
    if tag:
        git(repository, "tag", "--annotate", "--message=release", tag)
    return git(repository, "rev-parse", "HEAD")


def _record_hash(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"sha256={digest}"


def write_project(root: Path, name: str, **settings: object) -> Project:
    """Write an import.json with `settings` to a workspace at `root`, and load the project."""
    directory = root / "third_party" / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "import.json").write_text(json.dumps({"name": name, **settings}))
    return load_project(root, name)


def make_sdist(directory: Path, name: str, version: str, files: Mapping[str, bytes]) -> Path:
    """Write an sdist with `files`, plus a default PKG-INFO and LICENSE if those are missing."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: A library\n"
    info += "License: MIT\nHome-page: https://example.com/lib\n"
    members = {"PKG-INFO": info.encode(), "LICENSE": b"Do as you like.\n", **files}
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{stem}.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        for member, data in sorted(members.items()):
            item = tarfile.TarInfo(f"{stem}/{member}")
            item.size = len(data)
            packed.addfile(item, io.BytesIO(data))
    return path


def make_pure_wheel(directory: Path, name: str, version: str, files: Mapping[str, bytes]) -> Path:
    """Write a pure-Python wheel that pip accepts."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: A library\n"
    wheel = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    members = {
        **files,
        f"{info}/METADATA": f"{text}License: MIT\n".encode(),
        f"{info}/WHEEL": wheel.encode(),
        f"{info}/LICENSE": b"Do as you like.\n",
    }
    rows = [f"{path},{_record_hash(data)},{len(data)}" for path, data in members.items()]
    members[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as packed:
        for member, data in members.items():
            packed.writestr(member, data)
    return path
