# SPDX-License-Identifier: Apache-2.0
"""Download source packages with apt, from any suite of the host's Debian mirrors."""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tools.bazel import apt_origin, command, private_apt
from tools.bazel.apt_origin import Origin
from tools.importer.errors import EnvironmentProblem
from tools.importer.origins.cache import Cache
from tools.importer.origins.origin import NotHereError

# The suites, in search order: the most likely ones first.
_SUITES = ("stable", "testing", "unstable", "oldstable")
_TOOLS = ("apt-get", "apt-cache", "apt-config", "timeout")
_HELPER = Path("/usr/lib/apt/apt-helper")
_FRESH_SECONDS = 3600
_DOWNLOAD_SECONDS = 1800
_DFSG = re.compile(r"[+~.](?:dfsg|ds|repack)[\d.]*$")


@dataclass(frozen=True)
class SourceFile:
    """A file of a source package."""

    name: str
    sha256: str
    uri: str


@dataclass(frozen=True)
class SourcePackage:
    """A version of a source package in a suite."""

    name: str
    version: str
    suite: str
    files: tuple[SourceFile, ...]


def upstream_version(version: str) -> str:
    """Return upstream's part of a Debian version.

    It is `2.6.0` for `2.6.0+dfsg-7`, and `2.14.0rc1` for `1:2.14.0~rc1-1`.
    """
    upstream = version.partition(":")[2] or version
    if "-" in upstream:
        upstream = upstream.rpartition("-")[0]
    return _DFSG.sub("", upstream).replace("~", "")


class DebianArchive:
    """The Debian mirrors in the host's apt configuration. Tests pass `origins` instead."""

    def __init__(
        self,
        cache: Cache,
        *,
        origins: Sequence[Origin] | None = None,
        suites: Sequence[str] = _SUITES,
    ) -> None:
        self._cache, self._origins, self._suites = cache, origins, suites

    def find(self, package: str, upstream: str) -> SourcePackage:
        """Find the source package for an upstream version.

        Raises NotHereError if no suite has it, and EnvironmentProblem if no mirror can be reached.
        """
        known: list[str] = []
        problems: list[str] = []
        for origin in self._machine_origins():
            for suite in self._suites:
                try:
                    source = self._look(origin, suite, package, upstream, known)
                except command.CommandError as error:
                    problems.append(f"{suite} at {origin.uri}: {error}")
                    continue
                if source is not None:
                    return source
        if not known and problems:
            raise EnvironmentProblem(
                f"no index of Debian's sources: {'; '.join(problems)}. See that apt reaches a mirror"
            )
        raise NotHereError(
            f"no {package} {upstream} in Debian's {', '.join(self._suites)}"
            f" (there: {', '.join(known) or 'none'})",
            known=[f"v{upstream_version(version)}" for version in known],
            complete=False,
        )

    def download(self, file: SourceFile, directory: Path) -> Path:
        """Download a file and let apt check its hash. Raises EnvironmentProblem if that fails."""
        target = directory / file.name
        try:
            self._download(file.uri, target, file.sha256)
        except command.CommandError as error:
            raise EnvironmentProblem(f"{file.uri}: {error}") from error
        return target

    def download_pinned(self, package: str, name: str, sha256: str, directory: Path) -> Path:
        """Download a file from the pool of the first mirror that has it, without an index.

        A file stays in the pool as long as any release needs it. Raises EnvironmentProblem if no
        mirror has it.
        """
        target = directory / name
        problems = []
        for origin in self._machine_origins():
            uri = f"{origin.uri}/{_pool_path(package, name)}"
            try:
                self._download(uri, target, sha256)
            except command.CommandError as error:
                problems.append(f"{uri}: {error}")
                continue
            return target
        raise EnvironmentProblem(
            f"{name}, sha256 {sha256}: {'; '.join(problems)}. Where Debian has moved on, the pin"
            " needs an archive that keeps old files, or another origin (--origin)"
        )

    def _machine_origins(self) -> Sequence[Origin]:
        absent = [tool for tool in _TOOLS if shutil.which(tool) is None]
        if absent or not _HELPER.exists():
            raise EnvironmentProblem(f"no {[*absent, _HELPER][0]}: not a Debian machine")
        if self._origins is not None:
            return self._origins
        try:
            origins = apt_origin.origins(
                codename=apt_origin.codename(), etc=apt_origin.apt_directory()
            )
        except command.CommandError as error:
            raise EnvironmentProblem(str(error)) from error
        if not origins:
            raise EnvironmentProblem("this machine's apt sources name no Debian archive")
        return origins

    def _look(
        self, origin: Origin, suite: str, package: str, upstream: str, known: list[str]
    ) -> SourcePackage | None:
        name = f"{suite}-{hashlib.sha256(origin.uri.encode()).hexdigest()[:8]}"
        with self._cache.locked(f"apt-{name}") as lock, self._cache.writing():
            state = self._cache.root / "apt" / name
            apt = private_apt.PrivateApt(state, origin=origin, suite=suite, lock=lock, sources=True)
            stamp = state / "updated"
            if not stamp.exists() or time.time() - stamp.stat().st_mtime > _FRESH_SECONDS:
                apt.update()
                stamp.touch()
            try:
                versions = apt.source_versions(package)
            except private_apt.MissingPackageError:
                return None
            known += [version for version in versions if version not in known]
            for version in versions:
                if upstream_version(version) == upstream:
                    files = apt.source_files(package, version)
                    return SourcePackage(package, version, suite, tuple(_files(files)))
        return None

    def _download(self, uri: str, target: Path, sha256: str) -> None:
        try:
            command.run(
                # When run as root, apt would otherwise switch to a user that cannot write to this
                # directory.
                [_HELPER, "-oAPT::Sandbox::User=root", "-oAcquire::Retries=2",
                 "-oAcquire::http::Timeout=20", "-oAcquire::https::Timeout=20",
                 "download-file", uri, target, f"SHA256:{sha256}"],
                seconds=_DOWNLOAD_SECONDS,
                env={"LC_ALL": "C"},
            )  # fmt: skip
        except command.CommandError:
            target.unlink(missing_ok=True)
            raise


def _files(files: dict[str, private_apt.Archive]) -> Iterable[SourceFile]:
    for uri, archive in files.items():
        yield SourceFile(archive.name, archive.sha256, uri)


def _pool_path(package: str, name: str) -> str:
    letter = package[:4] if package.startswith("lib") else package[:1]
    return f"pool/main/{letter}/{package}/{quote(name)}"
