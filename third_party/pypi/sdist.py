#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Download a source distribution with pip, without running any of its code.

    sdist.py fetch PROJECT VERSION DIR
    sdist.py list PROJECT

To read the metadata of an sdist, `pip download` runs upstream's build. This script therefore uses
pip as a library, only to find and download the file. Indexes, proxies, certificates and constraints
come from the user's configuration. The script starts itself again as a separate process, because
its callers usually cannot import pip. It needs only the standard library.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:  # If run as a script, put the workspace's root on sys.path.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from third_party.pypi import host_pip

_TIMEOUT_SECONDS = 900
_CHUNK = 1 << 20
_MISSING, _FORBIDDEN = 4, 5  # exit statuses of the inner program


class SdistError(Exception):
    """Raised if pip or the index cannot be used. The message is one line."""


class MissingError(SdistError):
    """Raised if the index has no sdist for a version. `known` lists the versions that have one."""

    def __init__(self, message: str, known: list[str]) -> None:
        super().__init__(message)
        self.known = known


class ForbiddenError(SdistError):
    """Raised if the user's pip configuration constrains the project to other versions."""


@dataclass(frozen=True)
class Sdist:
    """A downloaded source distribution."""

    file: Path
    version: str


def versions(project: str) -> list[str]:
    """Return the versions of `project` that have an sdist, oldest first.

    Raises an SdistError if pip fails.
    """
    return list(_inner("list", project)["versions"])


def wheel_versions(project: str) -> list[str]:
    """Return the versions of `project` that have a wheel, oldest first.

    Raises an SdistError if pip fails.
    """
    return list(_inner("list", project)["wheels"])


def fetch(project: str, version: str, directory: Path) -> Sdist:
    """Download the sdist to `directory`. Raises an SdistError if that is not possible."""
    answer = _inner("fetch", project, version, os.fspath(directory.absolute()))
    return Sdist(directory / answer["filename"], answer["version"])


def _inner(*arguments: str) -> dict[str, Any]:
    """Run this file in a process that can import the host's pip; return the JSON it prints."""
    try:
        pip = host_pip.find()
    except host_pip.NoPipError as error:
        raise SdistError(str(error)) from error
    environment = {**os.environ, "PIP_REQUIRE_VIRTUALENV": "0", "PIP_REQUIREMENT": ""}
    if environment.get("PIP_CONSTRAINT") == "":
        # An empty value means that there are no constraints, but pip would treat the variable as
        # unset and read the constraints in its configuration files.
        environment["PIP_CONSTRAINT"] = os.devnull
    with tempfile.TemporaryDirectory(prefix="sdist-") as scratch:
        try:
            result = subprocess.run(
                [
                    pip.argv[0],
                    "-B",
                    os.path.abspath(__file__),
                    "--inside",
                    os.fspath(pip.root or ""),
                    *arguments,
                ],
                cwd=scratch,
                env={**environment, "TMPDIR": scratch},
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=_TIMEOUT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise SdistError(
                f"pip gave no answer about {arguments[1]} in {_TIMEOUT_SECONDS} s"
            ) from None
    answer = _answer(result.stdout)
    if result.returncode == _MISSING:
        raise MissingError(answer["error"], answer["known"])
    if result.returncode == _FORBIDDEN:
        raise ForbiddenError(answer["error"])
    if result.returncode:
        lines = [line for line in result.stderr.splitlines() if line.strip()] or ["no message"]
        raise SdistError(f"pip exited {result.returncode} looking for {arguments[1]}: {lines[-1]}")
    return answer


def _answer(output: str) -> dict[str, Any]:
    lines = [line for line in output.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {"error": "no answer", "known": []}


def _inside(root: str, command: str, project: str, *rest: str) -> int:
    """Run `command` (fetch or list) in a process that can import pip. Return the exit status."""
    if root:
        sys.path.insert(0, root)
    from pip._internal.commands import create_command

    download = create_command("download")
    options, _ = download.parse_args(["--no-input", "--no-deps", project])
    with download.main_context():
        download.tempdir_registry = download.enter_context(_registry())
        session = download.get_default_session(options)
        finder = download._build_package_finder(options, session)
        links: dict[str, Any] = {}
        wheels = set()
        for candidate in finder.find_all_candidates(project):
            if candidate.link.is_wheel:
                wheels.add(str(candidate.version))
            else:
                links.setdefault(str(candidate.version), candidate.link)
        known = sorted(links, key=_key)
        if command == "list":
            print(json.dumps({"versions": known, "wheels": sorted(wheels, key=_key)}))
            return 0
        version, directory = rest
        link = links.get(version)
        if link is None:
            fault = f"no sdist of {project}=={version} at the indexes that pip is set to"
            print(json.dumps({"error": fault, "known": known}))
            return _MISSING
        constraint = _constraint(options, session, project, version)
        if constraint:
            fault = (
                f"pip may not fetch {project}=={version}: this machine constrains it to"
                f" '{constraint}' (PIP_CONSTRAINT, or a file that `pip config list` names)."
                " Import a release that it allows, or set PIP_CONSTRAINT to nothing for this"
                " command"
            )
            print(json.dumps({"error": fault, "known": known}))
            return _FORBIDDEN
        filename = os.path.basename(link.filename)
        # Request the "identity" encoding, because the server might otherwise compress the file,
        # which would change its hash.
        response = session.get(
            link.url.partition("#")[0], headers={"Accept-Encoding": "identity"}, stream=True
        )
        response.raise_for_status()
        with open(os.path.join(directory, filename), "wb") as file:
            while chunk := response.raw.read(_CHUNK):
                file.write(chunk)
        print(json.dumps({"filename": filename, "version": version}))
    return 0


def _registry() -> Any:
    from pip._internal.utils.temp_dir import tempdir_registry

    return tempdir_registry()


def _constraint(options: Any, session: Any, project: str, version: str) -> str:
    """Return the constraint in the user's configuration that forbids `version`, or ""."""
    from pip._internal.req.constructors import install_req_from_parsed_requirement
    from pip._internal.req.req_file import parse_requirements

    for name in options.constraints or ():
        for parsed in parse_requirements(name, session=session, constraint=True, options=options):
            requirement = install_req_from_parsed_requirement(parsed).req
            if (
                requirement is not None
                and _normal(requirement.name) == _normal(project)
                and not requirement.specifier.contains(version, prereleases=True)
            ):
                return f"{requirement.name}{requirement.specifier}"
    return ""


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _key(version: str) -> Any:
    from pip._vendor.packaging.version import Version

    return Version(version)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--inside"]:
        return _inside(*arguments[1:])
    try:
        if len(arguments) == 2 and arguments[0] == "list":
            print("\n".join(versions(arguments[1])))
        elif len(arguments) == 4 and arguments[0] == "fetch":
            print(fetch(arguments[1], arguments[2], Path(arguments[3])).file)
        else:
            print((__doc__ or "").partition("\n\n")[2].partition("\n\n")[0], file=sys.stderr)
            return 1
    except SdistError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
