# SPDX-License-Identifier: Apache-2.0
"""A commit of a local repository as a Snapshot."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import cached_property

from tools.importer.git_repo.repository import GITLINK, Repository, TreeEntry
from tools.importer.snapshot import Blob


class CommitSnapshot:
    """The files of one commit, without submodules."""

    def __init__(self, repository: Repository, commit: str) -> None:
        self._repository = repository
        self.commit = commit
        self.label = commit[:12]
        self.pin: Mapping[str, object] = {
            "kind": "git",
            "tag": None,
            "url": os.fspath(repository.path),
            "ref": commit,
            "commit": commit,
        }

    def paths(self) -> Collection[str]:
        return self._files.keys()

    def read(self, path: str) -> Blob | None:
        return self._repository.read(self._files.get(path))

    def carries(self, path: str) -> bool:
        return True

    @cached_property
    def _files(self) -> dict[str, TreeEntry]:
        return {
            path: entry
            for path, entry in self._repository.files(self.commit).items()
            if entry.mode != GITLINK
        }
