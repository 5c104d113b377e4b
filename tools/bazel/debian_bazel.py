# SPDX-License-Identifier: Apache-2.0
"""Provide Bazel from Debian's archive on any Debian release: download, unpack and check it."""

from __future__ import annotations

import platform
import re
import shutil
from pathlib import Path

from tools.bazel import apt_origin, command, debian_prefix, private_apt
from tools.bazel.launcher import Launcher, Unavailable

# No stable Debian release includes this version of Bazel yet.
_SUITES = ("testing", "unstable")
_TOOLS = ("apt-get", "apt-cache", "apt-config", "dpkg-deb", "timeout")


def is_set_up(cache: Path) -> bool:
    """Return whether the prefix (see debian_prefix.py) has already been built."""
    return _prefix(cache).is_dir()


def provide(*, version: str, cache: Path, lock: int) -> Launcher:
    """Return a launcher for Debian's Bazel, and build its prefix under `cache` if necessary.

    Raises Unavailable if the host or the archive cannot provide this version.
    """
    prefix = _prefix(cache)
    try:
        if not prefix.is_dir():
            _build(prefix, version=version, lock=lock)
        # Rewrite the rc file, because it may be from an older bazelw.
        debian_prefix.write_rc(prefix, prefix=prefix)
        debian_prefix.check(prefix, version=version)
    except (command.CommandError, debian_prefix.PrefixError) as error:
        raise Unavailable(str(error)) from error
    shutil.rmtree(_work(prefix), ignore_errors=True)
    return Launcher(
        program=debian_prefix.client(prefix),
        version=version,
        source="Debian's bazel-bootstrap",
        startup_options=debian_prefix.startup_options(prefix),
    )


def _build(prefix: Path, *, version: str, lock: int) -> None:
    if platform.machine() != "x86_64":
        raise Unavailable(f"this recipe is for x86_64, this machine is {platform.machine()}")
    absent = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if absent:
        raise Unavailable(f"no {absent[0]}: not a Debian machine")
    debs = _fetch(_work(prefix), version=version, lock=lock)
    staging = _work(prefix) / "staging"
    debian_prefix.build(debs, staging=staging, prefix=prefix, version=version, lock=lock)


def _prefix(cache: Path) -> Path:
    return cache / "debian"


def _work(prefix: Path) -> Path:
    """Return the directory for apt's state, the .debs and the unfinished prefix.

    The directory is kept if building the prefix fails.
    """
    return prefix.with_name("debian.work")


def _fetch(work: Path, *, version: str, lock: int) -> list[Path]:
    origins = apt_origin.origins(codename=apt_origin.codename(), etc=apt_origin.apt_directory())
    if not origins:
        raise Unavailable("this machine's apt sources name no Debian archive")
    reasons = []
    for origin in origins:
        for suite in _SUITES:
            state = work / f"apt-{suite}"
            # Always fetch the package index again, because it is small and may be outdated, but
            # keep the large .debs.
            shutil.rmtree(state, ignore_errors=True)
            apt = private_apt.PrivateApt(state, origin=origin, suite=suite, lock=lock)
            try:
                return _fetch_from(apt, version=version, debs=work / "debs")
            except (command.CommandError, private_apt.MissingPackageError, Unavailable) as error:
                reasons.append(f"{suite} at {origin.uri}: {error}")
    raise Unavailable("; ".join(reasons))


def _fetch_from(apt: private_apt.PrivateApt, *, version: str, debs: Path) -> list[Path]:
    apt.update()
    names = debian_prefix.wanted_packages()
    index = apt.index(names=names)
    available = index.packages["bazel-bootstrap"].version
    if not re.match(rf"{re.escape(version)}(?![0-9.])", available):
        raise Unavailable(f"bazel-bootstrap is {available}, not {version}")
    libraries = index.libraries_below(debian_prefix.LIBRARY_ROOTS)
    return apt.download(sorted({*names, *libraries}), into=debs)
