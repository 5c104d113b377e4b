# SPDX-License-Identifier: Apache-2.0
"""The origin for source distributions on a package index. The pin contains the archive's sha256."""

from __future__ import annotations

import re

from third_party.pypi import sdist
from tools.importer.archives.archive import write_tree
from tools.importer.archives.zip_tree import ArchiveSnapshot
from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.origins.cache import Cache
from tools.importer.origins.machine_pip import ConstrainedError
from tools.importer.origins.origin import NotHereError, Pin, Revision, text_of
from tools.importer.report import Report

KIND = "sdist"


class SdistOrigin:
    """The sdists of the project that has this name on the package index."""

    title = "the package index, as sdist"

    def __init__(self, project: str, cache: Cache, report: Report) -> None:
        self._project, self._cache, self._report = project, cache, report

    def find(self, revision: Revision) -> ArchiveSnapshot:
        if revision.version is None:
            raise NotHereError(
                f"{revision.name} is not the tag of a release, and only releases have sdists"
            )
        name = f"sdist-{re.sub(r'[-_.]+', '-', self._project).lower()}-{revision.version}"
        noted = self._cache.named(name)
        if noted is None or self._cache.file(noted["sha256"]) is None:
            try:
                filename, sha256 = self._fetch(revision.version)
            except NotHereError as error:
                tag = revision.tag or revision.version
                known = [tag.replace(revision.version, each) for each in error.known]
                raise NotHereError(str(error), known=known) from error
            noted = {"filename": filename, "sha256": sha256}
            self._cache.note(name, noted)
        pin = {
            "kind": KIND,
            "tag": revision.tag,
            "project": self._project,
            "version": revision.version,
            "filename": noted["filename"],
            "sha256": noted["sha256"],
        }
        return self._snapshot(pin)

    def open(self, pin: Pin) -> ArchiveSnapshot:
        sha256 = text_of(pin, "sha256")
        if self._cache.file(sha256) is None:
            filename, digest = self._fetch(text_of(pin, "version"))
            if digest != sha256:
                raise UserError(
                    f"{filename}: sha256 is {digest}, the pin says {sha256}. Distrust the index;"
                    " import again if the new bytes are the right ones"
                )
        return self._snapshot(pin)

    def releases(self) -> list[str]:
        """Return the versions on the index, oldest first."""
        try:
            return sdist.versions(self._project)
        except sdist.SdistError as error:
            raise EnvironmentProblem(str(error)) from error

    def _fetch(self, version: str) -> tuple[str, str]:
        label = f"Fetching the sdist of {self._project}=={version} with pip"
        with self._cache.scratch() as directory, self._report.progress(label):
            try:
                fetched = sdist.fetch(self._project, version, directory)
            except sdist.MissingError as error:
                raise NotHereError(str(error), known=error.known) from error
            except sdist.ForbiddenError as error:
                raise ConstrainedError(str(error)) from error
            except sdist.SdistError as error:
                raise EnvironmentProblem(str(error)) from error
            filename = fetched.file.name
            _, sha256 = self._cache.keep(fetched.file)
        return filename, sha256

    def _snapshot(self, pin: Pin) -> ArchiveSnapshot:
        sha256, filename = text_of(pin, "sha256"), text_of(pin, "filename")
        file = self._cache.file(sha256)
        assert file is not None, "it has just been cached"
        tree = self._cache.tree(sha256, lambda out: write_tree(file, filename, out))
        return ArchiveSnapshot(tree, label=text_of(pin, "tag"), pin=dict(pin))
