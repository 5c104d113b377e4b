# SPDX-License-Identifier: Apache-2.0
"""BuildBox, the worker for BuildGrid, from a Debian package that is unpacked but not installed.

PyPI has no worker for BuildGrid. The package is only in Debian unstable, where new versions replace
it, so it cannot be pinned by hash. Instead, the archive's signed index verifies the download.
"""

from __future__ import annotations

from pathlib import Path

from tools.bazel import apt_origin, command, private_apt

_SUITE = "unstable"
_PACKAGE = "buildbox"
_LIBRARIES = Path("usr/lib/x86_64-linux-gnu")
_PROGRAMS = ("buildbox-casd", "buildbox-run-hosttools", "buildbox-worker")

# The programs need a newer C library than the host's, so start them with the loader of the C
# library that was downloaded with them. Actions still use the host's C library.
_LAUNCHER = """\
#!/bin/sh
exec {libraries}/ld-linux-x86-64.so.2 --library-path {libraries} --argv0 "$0" {program} "$@"
"""


class UnavailableError(Exception):
    """Raised if the package cannot be downloaded. The one-line message gives the reason."""


def unpack(directory: Path) -> Path:
    """Download and unpack the programs into `directory`; return the folder with their launchers."""
    root, programs = directory / "root", directory / "bin"
    root.mkdir(parents=True)
    for deb in _fetch(directory):
        command.run(["dpkg-deb", "-x", deb, root], seconds=60)
    programs.mkdir()
    for name in _PROGRAMS:
        launcher = programs / name
        program = root / "usr/bin" / name
        launcher.write_text(_LAUNCHER.format(libraries=root / _LIBRARIES, program=program))
        launcher.chmod(0o755)
    return programs


def _fetch(directory: Path) -> list[Path]:
    reasons = ["this machine's apt sources name no Debian archive"]
    with (directory / "lock").open("w") as lock:
        for origin in apt_origin.origins(
            codename=apt_origin.codename(), etc=apt_origin.apt_directory()
        ):
            apt = private_apt.PrivateApt(
                directory / "apt", origin=origin, suite=_SUITE, lock=lock.fileno()
            )
            try:
                apt.update()
                libraries = apt.index(names=[_PACKAGE]).libraries_below([_PACKAGE])
                return apt.download([_PACKAGE, *libraries], into=directory / "debs")
            except (command.CommandError, private_apt.MissingPackageError) as error:
                reasons.append(f"{_SUITE} at {origin.uri}: {error}")
    raise UnavailableError("; ".join(reasons[1:] or reasons))
