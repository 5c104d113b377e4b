# SPDX-License-Identifier: Apache-2.0
"""Run apt with the host's programs, keys and proxy settings, but with private state.

This module neither reads nor modifies the state of the host's apt and dpkg, so it needs no
privileges and cannot break the host.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from tools.bazel import apt_origin, command, package_index

_UPDATE_SECONDS = 180
_DOWNLOAD_SECONDS = 1200
_URI_LINE = re.compile(
    r"^'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+) SHA256:(?P<sha256>[0-9a-f]{64})$"
)

# apt reads this configuration after the host's own. It clears the host's hooks, because a
# container's clean-up hook would otherwise delete files in the host's package cache.
_CONFIG = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
#clear Acquire::Languages;
Acquire::Languages "none";
Acquire::PDiffs "false";
Acquire::Retries "2";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
APT::Sandbox::User "root";
APT::Get::List-Cleanup "true";
Dir::Etc::sourcelist "{state}/suite.sources";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "{state}";
Dir::State::lists "{state}/lists";
Dir::State::status "{state}/status";
Dir::Cache "{state}/cache";
Dir::Log "{state}/log";
"""


class MissingPackageError(Exception):
    """Raised if the suite lacks a requested package. The message is one line."""


@dataclass(frozen=True)
class Archive:
    """The name and hash of a .deb or source file, as listed in the signed index."""

    name: str
    sha256: str


class PrivateApt:
    """An apt instance for one suite of one archive, whose state is in the directory `state`.

    lock: the descriptor of a lock file. Every apt process inherits it, so the lock stays held.
    sources: whether to use the suite's source packages instead of its binary packages.
    """

    def __init__(
        self,
        state: Path,
        *,
        origin: apt_origin.Origin,
        suite: str,
        lock: int,
        sources: bool = False,
    ) -> None:
        self._state = state
        self._config = state / "apt.conf"
        self._lock = lock
        for directory in ("lists/partial", "cache/archives/partial", "log"):
            (state / directory).mkdir(parents=True, exist_ok=True)
        (state / "status").touch()
        (state / "suite.sources").write_text(
            apt_origin.stanza(origin, suite=suite, sources=sources)
        )
        self._config.write_text(_CONFIG.format(state=state))

    def update(self) -> None:
        """Download and verify the suite's package index."""
        # Without --error-on=any, a failed download would cause only a warning, and apt would use an
        # old or empty index.
        self._run("apt-get", "update", "-qq", "--error-on=any", seconds=_UPDATE_SECONDS)

    def index(self, *, names: Sequence[str]) -> package_index.PackageIndex:
        """Return the suite's index. Raises MissingPackageError if it lacks a requested package."""
        dump = self._run("apt-cache", "dumpavail", seconds=60)
        index = package_index.parse(dump, names=names)
        missing = [name for name in names if name not in index.packages]
        if missing:
            raise MissingPackageError(f"no package {', '.join(missing)}")
        return index

    def download(self, names: Sequence[str], *, into: Path) -> list[Path]:
        """Download the .debs of `names` to the directory `into`, and return their paths.

        A file that already exists and has the right hash is not downloaded again.
        """
        into.mkdir(parents=True, exist_ok=True)
        listing = self._run("apt-get", "download", "--print-uris", *names, seconds=60)
        archives = dict(self._archive(line) for line in listing.splitlines())
        absent = [
            uri for uri, archive in archives.items() if not _matches(into / archive.name, archive)
        ]
        if absent:
            packages = [unquote(archives[uri].name).split("_", 1)[0] for uri in absent]
            for uri in absent:
                (into / archives[uri].name).unlink(missing_ok=True)
            self._run("apt-get", "download", "-qq", *packages, seconds=_DOWNLOAD_SECONDS, cwd=into)
        for archive in archives.values():
            if not _matches(into / archive.name, archive):
                raise command.CommandError(
                    f"apt-get: {archive.name} does not have the hash in the index"
                )
        return sorted(into / archive.name for archive in archives.values())

    def source_versions(self, name: str) -> list[str]:
        """Return the versions of a source package. Raises MissingPackageError if there are none."""
        # --only-source excludes binary packages of the same name that are built from another
        # source.
        records = self._run("apt-cache", "showsrc", "--only-source", name, seconds=60)
        versions = re.findall(r"^Version: (\S+)$", records, re.MULTILINE)
        if not versions:
            raise MissingPackageError(f"no source package {name}")
        return versions

    def source_files(self, name: str, version: str) -> dict[str, Archive]:
        """For one version of a source package, map each file's URL to its name and hash."""
        listing = self._run(
            "apt-get",
            "source",
            "-qq",
            "--print-uris",
            "--only-source",
            f"{name}={version}",
            seconds=60,
        )
        lines = [line for line in listing.splitlines() if line.startswith("'")]
        return dict(self._archive(line) for line in lines)

    def _archive(self, line: str) -> tuple[str, Archive]:
        match = _URI_LINE.match(line)
        if match is None:
            raise command.CommandError(f"apt-get download --print-uris: cannot read '{line}'")
        return match["uri"], Archive(match["file"], match["sha256"])

    def _run(self, program: str, *arguments: str, seconds: int, cwd: Path | None = None) -> str:
        return command.run(
            [program, "-c", self._config, *arguments],
            seconds=seconds,
            cwd=cwd,
            env={"LC_ALL": "C"},
            hold=[self._lock],
        )


def _matches(path: Path, archive: Archive) -> bool:
    if not path.is_file():
        return False
    return hashlib.sha256(path.read_bytes()).hexdigest() == archive.sha256
