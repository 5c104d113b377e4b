# SPDX-License-Identifier: Apache-2.0
"""Origins whose address contains the release: a URL, or the path of an archive or directory.

In import.json, the address contains `{tag}` or `{version}`. A URL's pin contains the archive's
sha256. Files at a path are pinned like other local files (local.py).
"""

from __future__ import annotations

import glob
import os
import re
import urllib.error
import urllib.request
from pathlib import Path

from tools.importer.archives.archive import write_tree
from tools.importer.archives.zip_tree import ArchiveSnapshot
from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.origins.cache import Cache
from tools.importer.origins.local import ArchiveOrigin, TreeOrigin
from tools.importer.origins.origin import NotHereError, OriginSnapshot, Pin, Revision, text_of
from tools.importer.report import Report

KIND = "archive"
DIRECTORY_KIND = "directory"

_SECONDS = 60
_CHUNK = 1 << 20
_PLACEHOLDER = re.compile(r"(\{tag\}|\{version\})")


class ArchiveUrlOrigin:
    """An archive at `url`, downloaded by Python via any proxies set in the environment."""

    title = "an archive's address"

    def __init__(self, url: str, cache: Cache, report: Report) -> None:
        self._url, self._cache, self._report = url, cache, report

    def find(self, revision: Revision) -> ArchiveSnapshot:
        url = address(self._url, revision)
        sha256 = self._fetch(url)
        return self._snapshot({"kind": KIND, "tag": revision.tag, "url": url, "sha256": sha256})

    def open(self, pin: Pin) -> ArchiveSnapshot:
        url, sha256 = text_of(pin, "url"), text_of(pin, "sha256")
        if self._cache.file(sha256) is None:
            digest = self._fetch(url)
            if digest != sha256:
                raise UserError(
                    f"{url}: sha256 is {digest}, the pin says {sha256}. Distrust the server, or"
                    " import again if the new bytes are the right ones"
                )
        return self._snapshot(pin)

    def _fetch(self, url: str) -> str:
        label = f"Fetching {url}"
        with self._cache.scratch() as directory, self._report.progress(label):
            try:
                with (
                    urllib.request.urlopen(url, timeout=_SECONDS) as source,
                    (directory / "archive").open("wb") as out,
                ):
                    while chunk := source.read(_CHUNK):
                        out.write(chunk)
            except urllib.error.HTTPError as error:
                if error.code in (404, 410):
                    raise NotHereError(f"{url}: HTTP status {error.code}") from error
                raise EnvironmentProblem(f"{url}: HTTP status {error.code}") from error
            except urllib.error.URLError as error:
                raise EnvironmentProblem(f"{url}: {error.reason}") from error
            return self._cache.keep(directory / "archive")[1]

    def _snapshot(self, pin: Pin) -> ArchiveSnapshot:
        sha256, name = text_of(pin, "sha256"), text_of(pin, "url")
        file = self._cache.file(sha256)
        assert file is not None, "it has just been cached"
        tree = self._cache.tree(sha256, lambda out: write_tree(file, name, out))
        return ArchiveSnapshot(tree, label=text_of(pin, "tag"), pin=dict(pin))


class PathOrigin:
    """An archive or a directory at a path that contains the tag or the version."""

    title = "a path"

    def __init__(self, path: str, cache: Cache, report: Report) -> None:
        self._path, self._cache, self._report = path, cache, report

    def find(self, revision: Revision) -> OriginSnapshot:
        path = Path(os.path.abspath(address(self._path, revision)))
        if path.is_dir():
            return TreeOrigin(path, self._report).find(revision)
        if not path.exists():
            raise NotHereError(f"{path}: no such file", known=self._known(revision))
        return ArchiveOrigin(path, self._cache, self._report).find(revision)

    def open(self, pin: Pin) -> OriginSnapshot:
        raise AssertionError(f"{dict(pin)}: pins of local files have another kind")

    def _known(self, revision: Revision) -> list[str]:
        """Return the tags of the releases that exist at this path."""
        files, expression = "", ""
        for part in _PLACEHOLDER.split(os.path.abspath(self._path)):
            if _PLACEHOLDER.fullmatch(part):
                name = part.strip("{}")
                is_first = f"(?P<{name}>" not in expression
                files += "*"
                expression += f"(?P<{name}>[^/]+)" if is_first else f"(?P={name})"
            else:
                files += glob.escape(part)
                expression += re.escape(part)
        prefix = (revision.tag or "").removesuffix(revision.version or "")
        releases = (re.fullmatch(expression, file) for file in sorted(glob.glob(files)))
        named = [release.groupdict() for release in releases if release is not None]
        tags = [fields.get("tag") or prefix + fields["version"] for fields in named]
        return [
            tag
            for tag, fields in zip(tags, named, strict=True)
            if tag == prefix + fields.get("version", tag.removeprefix(prefix))
        ]


def address(pattern: str, revision: Revision) -> str:
    """Return `pattern` with the tag and version of a release in place of {tag} and {version}."""
    if revision.tag is None:
        raise NotHereError(f"{revision.name} is not a tag, and this address has only releases")
    if "{version}" in pattern and revision.version is None:
        raise NotHereError(f"{revision.name} is not the tag of a release")
    return pattern.replace("{tag}", revision.tag).replace("{version}", revision.version or "")
