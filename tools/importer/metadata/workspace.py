# SPDX-License-Identifier: Apache-2.0
"""Generate the workspace's metadata: all METADATA files and the bill of materials."""

from __future__ import annotations

import datetime
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.metadata import spdx
from tools.importer.metadata.locked import LOCK, modules, own_module, wheels
from tools.importer.metadata.metadata_file import UPDATE, Metadata, load_metadata
from tools.importer.metadata.vendored import (
    Vendored,
    buildifier,
    c_sources,
    clang,
    cuda,
    of_project,
    projects,
    read_json,
    torch_variants,
)
from tools.importer.project import SBOM, Project


@dataclass(frozen=True, order=True)
class Problem:
    """A file whose contents are not up to date."""

    path: str
    what: str
    next_step: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}. {self.next_step}"


def render_all(
    project: Project, pin: Mapping[str, object], *, today: datetime.date | None = None
) -> dict[str, bytes]:
    """Return the project's METADATA and the bill of materials, generated for a new pin.

    `today` is recorded as the upgrade date if the version changes. Raises UserError if an input is
    missing or invalid.
    """
    files = render_workspace(project.workspace, pins={project.name: pin}, today=today)
    own = project.metadata.relative_to(project.workspace).as_posix()
    return {path: files[path] for path in sorted((own, SBOM))}


def render_project(
    project: Project, pin: Mapping[str, object], *, today: datetime.date | None = None
) -> dict[str, bytes]:
    """Return the project's METADATA, generated for a new pin.

    Raises UserError if METADATA or the pin is invalid.
    """
    vendored = of_project(project, pin, ())
    metadata = _at(load_metadata(project.metadata), vendored, today or _today())
    return {vendored.metadata: metadata.dumps()}


def render_added(
    project: Project,
    metadata: Metadata,
    pin: Mapping[str, object],
    *,
    today: datetime.date | None = None,
) -> dict[str, bytes]:
    """Return a new project's METADATA, and the bill of materials if the workspace has one."""
    vendored = of_project(project, pin, ())
    current = _at(metadata, vendored, today or _today())
    files = {vendored.metadata: current.dumps()}
    if (project.workspace / SBOM).exists():
        added = (vendored, current)
        files[SBOM] = render_workspace(project.workspace, today=today, added=added)[SBOM]
    return files


def render_workspace(
    workspace: Path,
    *,
    pins: Mapping[str, Mapping[str, object]] | None = None,
    today: datetime.date | None = None,
    added: tuple[Vendored, Metadata] | None = None,
) -> dict[str, bytes]:
    """Return every generated file, keyed by workspace path. `pins` override the projects' pins.

    `added` is a project that is not in the workspace yet. For a workspace with neither a lock file
    nor a bill of materials, only the projects' METADATA is generated. Raises UserError if an input
    is missing or cannot be read.
    """
    if not (workspace / SBOM).exists() and not (workspace / LOCK).exists():
        files: dict[str, bytes] = {}
        for project in projects(workspace):
            files |= render_project(project, read_json(project.pin), today=today)
        return files
    today = today or _today()
    locked = wheels(workspace)
    rendered = []
    for vendored in _vendored(workspace, pins or {}, locked.of_torch):
        metadata = load_metadata(workspace / vendored.metadata)
        rendered.append((vendored, _at(metadata, vendored, today)))
    if added is not None:
        rendered = sorted([*rendered, added], key=lambda row: row[0].name)
    name, version = own_module(workspace)
    variants = {}
    for vendored, metadata in rendered:
        if vendored.name == "torch":
            for key, variant in torch_variants(workspace, vendored).items():
                variants[key] = (variant, metadata)
    inventory = spdx.Inventory(name, version, rendered, locked, modules(workspace), variants)
    files = {vendored.metadata: metadata.dumps() for vendored, metadata in rendered}
    return {**files, SBOM: spdx.render(inventory)}


def check_all(workspace: Path) -> list[Problem]:
    """Return a problem for each stale file, or only one if an input cannot be read."""
    try:
        files = render_workspace(workspace)
    except UserError as error:
        path, _, fault = str(error).removeprefix(f"{workspace}/").partition(": ")
        return [Problem(path, *_sentences(fault))]
    return [
        Problem(path, "differs from the generated content", f"Run `{UPDATE}`")
        for path in sorted(files)
        if _bytes_of(workspace / path) != files[path]
    ]


def write_all(workspace: Path) -> list[str]:
    """Write stale files and return their paths. Other files keep their timestamps."""
    written = []
    for path, data in sorted(render_workspace(workspace).items()):
        if _bytes_of(workspace / path) != data:
            _replace(workspace / path, data)
            written.append(path)
    return written


def _at(metadata: Metadata, vendored: Vendored, today: datetime.date) -> Metadata:
    return metadata.at(
        vendored.version, vendored.urls, modifications=vendored.local_modifications, today=today
    )


def _vendored(
    workspace: Path, pins: Mapping[str, Mapping[str, object]], of_torch: tuple[str, ...]
) -> list[Vendored]:
    packages = [
        buildifier(workspace),
        clang(workspace),
        cuda(workspace),
        *c_sources(workspace),
    ]
    for project in projects(workspace):
        pin = pins.get(project.name) or read_json(project.pin)
        packages.append(of_project(project, pin, of_torch if project.name == "torch" else ()))
    return sorted(packages, key=lambda vendored: vendored.name)


def _today() -> datetime.date:
    """Return today's date in UTC. SOURCE_DATE_EPOCH overrides it, for reproducible builds."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.datetime.now(datetime.UTC)
    return (datetime.datetime.fromtimestamp(int(epoch), datetime.UTC) if epoch else now).date()


def _bytes_of(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        return None


def _replace(file: Path, data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(name, 0o644)
        os.replace(name, file)
    except OSError as error:
        os.unlink(name)
        raise EnvironmentProblem(
            f"{file}: cannot write: {error.strerror}. Free disk space or fix the permissions, then run `{UPDATE}`"
        ) from error


def _sentences(message: str) -> tuple[str, str]:
    """Split a one-line error into the problem and the next step, which is the last sentence."""
    fault, _, next_step = message.rpartition(". ")
    return (fault, next_step) if fault else (message, f"Correct it, then run `{UPDATE}`")
