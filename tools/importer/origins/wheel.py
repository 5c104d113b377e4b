# SPDX-License-Identifier: Apache-2.0
"""Origins for release wheels: the one that the build uses, and other platforms' wheels."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from third_party.pypi import target
from tools.importer.archives.safe_path import check_path
from tools.importer.archives.zip_tree import ZipMembers, open_zip
from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.origins import machine_pip
from tools.importer.origins.cache import Cache, CacheProblem
from tools.importer.origins.machine_pip import ConstrainedError, Request
from tools.importer.origins.origin import NotHereError, Pin, Revision, optional_text, text_of
from tools.importer.origins.pure_wheel import PureWheelSnapshot
from tools.importer.origins.wheel_contents import WheelContents, kind_of, read_contents
from tools.importer.project import Project
from tools.importer.report import Report
from tools.importer.snapshot import Blob

KIND = "wheel"

# Platforms whose wheels do not contain CUDA, smallest first: 130 MB instead of 550 MB for the
# default Linux wheel. For the first platform, pip also accepts wheels built for older versions of
# macOS.
_SOURCE_PLATFORMS = (
    ("macosx_99_0_arm64",),
    ("win_amd64",),
    ("manylinux_2_28_aarch64", "manylinux2014_aarch64"),
)

# This variable overrides the URL of the package index that hosts builds without CUDA, here and in
# //third_party/pypi.
_EXTRA_INDEX_VARIABLE = "TORCH_GOOGLE_TORCH_INDEX"


@dataclass(frozen=True)
class WheelSettings:
    """The settings for a project's wheels. `local` is the version suffix of CPU-only builds."""

    project: str
    local: str | None
    extra_index: str | None
    contents: WheelContents | None  # None: all files are upstream's (pure_wheel.py)


def wheel_settings(project: Project) -> WheelSettings | None:
    """Return the wheel settings in import.json and the pin; None if there is no wheel origin."""
    settings = project.origins.get(KIND)
    if settings is None:
        return None
    contents = settings.get("contents")
    return WheelSettings(
        setting(project, KIND, "project"),
        settings.get("local_version"),
        _extra_index(project.pin),
        read_contents(project.workspace / contents) if contents else None,
    )


def setting(project: Project, kind: str, key: str) -> str:
    """Return a setting of an origin. Raises a UserError naming file and key if it is missing."""
    try:
        return project.origins[kind][key]
    except KeyError:
        raise UserError(
            f"{project.file}: key 'origins': '{kind}' lacks '{key}'. Add it; see"
            " tools/importer/origins/README.md"
        ) from None


def read_build_pin(pin: Path) -> dict[str, object]:
    """Return the build's pin, or {} if there is none. Raises UserError if it is malformed."""
    try:
        data = json.loads(pin.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UserError(f"{pin}: {error}. Restore the file") from error
    if not isinstance(data, dict):
        raise UserError(f"{pin}: not a JSON object. Restore the file")
    return data


class WheelOrigin:
    """The origin for the wheel that the build uses: the CPU-only wheel for the build's platform."""

    @property
    def title(self) -> str:
        return "the build's wheel" if self._settings.contents else "the package index, as wheel"

    def __init__(self, settings: WheelSettings, cache: Cache, report: Report) -> None:
        self._settings, self._cache, self._report = settings, cache, report
        self.listed: tuple[str, ...] = ()

    def find(self, revision: Revision) -> Tree:
        version = _version(revision)
        if self._settings.local:
            version += f"+{self._settings.local}"
        try:
            return self._noted(version, _native_requests(self._settings, version), revision)
        except NotHereError as error:
            self.listed = error.known
            raise

    def open(self, pin: Pin) -> Tree:
        """Return the pinned wheel, which may have come from either wheel origin."""
        sha256, filename = text_of(pin, "sha256"), text_of(pin, "filename")
        file = self._cache.file(sha256)
        if file is None:
            requests = [
                Request(
                    self._settings.project,
                    text_of(pin, "version"),
                    _options_for(filename),
                    sha256=sha256,
                    index=index,
                )
                for index in _indexes(self._settings)
            ]
            return self._first(iter(requests), Revision(tag=text_of(pin, "tag")), pin)
        return _opened(file, self._settings, self._cache, pin)

    def _noted(self, version: str, requests: Iterator[Request], revision: Revision) -> Tree:
        """Return the cached wheel from an earlier run, or download it.

        A cached wheel never becomes outdated, because an index does not change a published wheel.
        """
        name = f"{self._settings.project}-{version}"
        noted = self._cache.named(name)
        file = self._cache.file(noted["sha256"]) if noted else None
        if noted is not None and file is not None:
            return _snapshot(
                file, noted["filename"], noted["sha256"], revision, self._settings, self._cache
            )
        snapshot = self._first(requests, revision)
        self._cache.note(name, {key: text_of(snapshot.pin, key) for key in ("filename", "sha256")})
        return snapshot

    def _first(
        self, requests: Iterator[Request], revision: Revision, pin: Pin | None = None
    ) -> Tree:
        """Return the wheel for the first request that pip can satisfy, or raise an error."""
        reasons: list[str] = []
        known: list[str] = []
        answered = False
        forbidden: ConstrainedError | None = None
        for request in requests:
            try:
                return self._fetch(request, revision, pin)
            except CacheProblem:
                raise
            except ConstrainedError as error:
                forbidden = forbidden or error
            except (NotHereError, EnvironmentProblem) as error:
                if isinstance(error, NotHereError):
                    answered = True
                    known += error.known
                reasons += [text for text in [str(error)] if text not in reasons]
        if forbidden is not None:
            raise forbidden
        if answered:
            raise NotHereError("; ".join(reasons), known=known)
        raise EnvironmentProblem("; ".join(reasons))

    def _fetch(self, request: Request, revision: Revision, pin: Pin | None) -> Tree:
        label = f"Fetching {request.requirement} with pip"
        with self._cache.scratch() as directory, self._report.progress(label):
            wheel = machine_pip.download(request, directory)
            filename = wheel.name
            file, sha256 = self._cache.keep(wheel)
        if pin is not None and sha256 != pin["sha256"]:
            raise UserError(
                f"{filename}: sha256 is {sha256}, the pin says {pin['sha256']}."
                " Distrust the index; import again if the new bytes are the right ones"
            )
        return _snapshot(file, filename, sha256, revision, self._settings, self._cache)


class SourceWheelOrigin(WheelOrigin):
    """The origin for other platforms' wheels, which have the same Python sources."""

    @property
    def title(self) -> str:
        return "another platform's wheel, for its sources"

    def __init__(
        self, settings: WheelSettings, cache: Cache, report: Report, native: WheelOrigin
    ) -> None:
        super().__init__(settings, cache, report)
        self._native = native

    def find(self, revision: Revision) -> Tree:
        version = _version(revision)
        listed = self._native.listed
        if listed and _plain(f"v{version}") not in map(_plain, listed):
            raise NotHereError(f"no wheel of {version} for any build", known=listed)
        return self._noted(version, _source_requests(self._settings, version), revision)


class WheelSnapshot:
    """Upstream's files in a wheel. None are executable: wheels record no executable bits."""

    def __init__(self, file: Path, settings: WheelSettings, pin: Pin) -> None:
        packed = open_zip(file)
        contents = settings.contents
        assert contents is not None, "such a wheel is opened as a PureWheelSnapshot"
        self._members = ZipMembers(
            file,
            packed,
            {
                check_path(item.filename, text_of(pin, "filename")): item
                for item in packed.infolist()
                if not item.is_dir() and contents.is_upstream(item.filename)
            },
        )
        self._contents = contents
        self._kinds = {kind_of(path) for path in self._members.paths}
        self.pin = pin
        self.label = text_of(pin, "tag")
        self.commit = optional_text(pin, "commit")
        self.natives = pin.get("natives") is True

    def paths(self) -> Collection[str]:
        return self._members.paths

    def read(self, path: str) -> Blob | None:
        return self._members.read(path)

    def carries(self, path: str) -> bool:
        return path in self._members.paths or self._contents.would_hold(path, self._kinds)


Tree = WheelSnapshot | PureWheelSnapshot


def _opened(file: Path, settings: WheelSettings, cache: Cache, pin: Pin) -> Tree:
    if settings.contents is None:
        return PureWheelSnapshot(file, cache, pin)
    return WheelSnapshot(file, settings, dict(pin))


def _snapshot(
    file: Path,
    filename: str,
    sha256: str,
    revision: Revision,
    settings: WheelSettings,
    cache: Cache,
) -> Tree:
    project, version, *_ = filename.split("-")
    stamp = _stamp(file, project) if settings.contents else {}
    if stamp.get("__version__", version) != version:
        raise UserError(
            f"{filename}: {project}/version.py says {stamp['__version__']}. Distrust the index"
        )
    natives = (
        target.platforms(filename) is not None
        and version.partition("+")[2] == (settings.local or "")
        and stamp.get("cuda") is None
    )
    pin = {
        "kind": KIND,
        "tag": revision.tag,
        "project": settings.project,
        "version": version,
        "filename": filename,
        "sha256": sha256,
        "commit": stamp.get("git_version"),
        "natives": natives,
    }
    return _opened(file, settings, cache, pin)


def _stamp(file: Path, project: str) -> dict[str, str]:
    """Return the strings that upstream's build wrote to version.py."""
    try:
        text = open_zip(file).read(f"{project}/version.py").decode("utf-8", "replace")
    except KeyError:
        return {}
    except (OSError, zipfile.BadZipFile) as error:
        raise EnvironmentProblem(f"{file}: damaged: {error}. Delete it") from error
    return dict(re.findall(r"^(\w+)(?:\s*:[^=\n]*)?\s*=\s*'([^']*)'", text, re.MULTILINE))


def _version(revision: Revision) -> str:
    if revision.version is None:
        raise NotHereError(
            f"{revision.name} is not the tag of a release, and wheels are of releases"
        )
    return revision.version


def _plain(version: str) -> str:
    """Return the version without dashes, so that 2.14.0-rc3 and 2.14.0rc3 are equal."""
    return version.replace("-", "")


def _indexes(settings: WheelSettings) -> Iterator[str | None]:
    """Yield None for the user's configured indexes, then the index for CPU-only builds, if any."""
    yield None
    index = os.environ.get(_EXTRA_INDEX_VARIABLE, settings.extra_index)
    if index:
        yield index


def _native_requests(settings: WheelSettings, version: str) -> Iterator[Request]:
    for index in _indexes(settings):
        yield Request(settings.project, version, tuple(target.pip_options()), index=index)


def _source_requests(settings: WheelSettings, version: str) -> Iterator[Request]:
    python = "--python-version={}.{}".format(*target.PYTHON)
    for platforms in _SOURCE_PLATFORMS:
        options = (python, *(f"--platform={name}" for name in platforms))
        yield Request(settings.project, version, options)
    yield Request(settings.project, version, tuple(target.pip_options()))


def _options_for(filename: str) -> tuple[str, ...]:
    """Return the options that make pip accept the wheel `filename`."""
    try:
        python, abi, tags = filename.removesuffix(".whl").split("-")[-3:]
        digits = re.fullmatch(r"(?:cp|py)(\d)(\d*)", python.split(".")[0])
        assert digits is not None
    except (ValueError, AssertionError):
        raise UserError(f"'{filename}' is not the name of a wheel. Restore the pin") from None
    version = f"{digits[1]}.{digits[2]}" if digits[2] else digits[1]
    return (
        "--implementation=cp",
        f"--python-version={version}",
        *(f"--abi={name}" for name in abi.split(".")),
        *(f"--platform={name}" for name in tags.split(".") if name != "any"),
    )


def _extra_index(pin: Path) -> str | None:
    """Return the URL of the index for CPU-only builds, as recorded in the pin, or None."""
    settings = read_build_pin(pin).get("wheel")
    index = settings.get("extra_index") if isinstance(settings, dict) else None
    return index if isinstance(index, str) else None
