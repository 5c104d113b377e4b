# SPDX-License-Identifier: Apache-2.0
"""Atomic distributed checkpoints: torch.distributed.checkpoint on paths with any scheme.

Each save writes data files with unique names, then atomically replaces `.metadata`, which lists
them, and finally removes the data files of the old checkpoint. So a process killed at any moment
leaves either the old checkpoint or the new one. The format is the same as upstream torch's, so
upstream's readers can load it.
"""

from __future__ import annotations

import dataclasses
import io
import os
import pickle
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.distributed.checkpoint import filesystem
from torch.distributed.checkpoint.filesystem import (
    FileSystemBase,
    FileSystemReader,
    FileSystemWriter,
)

from torch_google.gfile import operations
from torch_google.gfile.location import is_remote, locate
from torch_google.gfile.operations import Open
from torch_google.gfile.partial import LITTER
from torch_google.gfile.schemes import filesystem_of

_METADATA = ".metadata"
_DATA = ".distcp"
# Errors that pickle raises for a damaged file, or for one written by a different version of torch.
_UNREADABLE = (pickle.UnpicklingError, AttributeError, EOFError, ImportError, IndexError)


class _Files(FileSystemBase):
    """torch.distributed.checkpoint's interface for file access, implemented with gfile."""

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[io.IOBase]:
        stream: Any
        with Open(path, mode) as stream:
            yield stream

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> str:
        return str(locate(path).join(suffix))

    def init_path(self, path: str | os.PathLike[str]) -> str:
        return os.fspath(path)

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        operations.Rename(path, new_path, overwrite=True)

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        operations.MakeDirs(path)

    def exists(self, path: str | os.PathLike[str]) -> bool:
        return operations.Exists(path)

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        operations.Remove(path)

    def ls(self, path: str | os.PathLike[str]) -> list[str]:
        return [self.concat_path(path, name) for name in operations.ListDir(path)]

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        try:
            filesystem_of(checkpoint_id)
        except (ImportError, TypeError, ValueError):
            if is_remote(checkpoint_id):
                raise  # this error is more specific than torch's "no storage was found"
            return False
        return True


class Reader(FileSystemReader):
    """A `storage_reader` for a checkpoint at a path with any scheme."""

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        super().__init__(path, **options)
        self.fs = _Files()
        self.path = self.fs.init_path(path)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return _Files.validate_checkpoint_id(checkpoint_id)


class Writer(FileSystemWriter):
    """A `storage_writer` for a path with any scheme. It accepts FileSystemWriter's options.

    `gfile.configure(sync=...)` determines whether files are synced.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        super().__init__(path, **options)
        # gfile syncs a file on commit. Upstream torch would sync it again, or call os.sync().
        self.sync_files = False
        self.fs = _Files()
        self.path = self.fs.init_path(path)

    def write_data(self, plan: Any, planner: Any) -> Any:
        """Write this process's part of the checkpoint to files with unique names."""
        own = f"{plan.storage_data.prefix}{uuid.uuid4().hex[:12]}_"
        storage = dataclasses.replace(plan.storage_data, prefix=own)
        return super().write_data(dataclasses.replace(plan, storage_data=storage), planner)

    def finish(self, metadata: Any, results: list[list[Any]]) -> None:
        """Commit the new checkpoint's metadata, then remove the old checkpoint's data."""
        # In torch v2.6, metadata has no version, and saves always use collectives.
        if hasattr(filesystem, "CURRENT_DCP_VERSION"):
            metadata.version = filesystem.CURRENT_DCP_VERSION
        metadata.storage_data = {
            result.index: result.storage_data for each in results for result in each
        }
        metadata.storage_meta = self.storage_meta()
        alone = getattr(self, "rank", None) is not None and not self.use_collectives
        prefix = f"__{self.rank}" if alone else "__"
        path = self.fs.concat_path(self.path, f"{prefix}{_METADATA}" if alone else _METADATA)
        old = _named(path)
        with Open(path, "wb") as file:
            pickle.dump(metadata, file)
        operations.Sweep(self.path)
        current = _names(metadata)
        for name in operations.ListDir(self.path):
            if not name.endswith(_DATA) or not name.startswith(f"{prefix}_" if alone else prefix):
                continue
            if name not in current and (name in old or self._is_litter(name)):
                operations.Remove(self.fs.concat_path(self.path, name))

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return _Files.validate_checkpoint_id(checkpoint_id)

    def _is_litter(self, name: str) -> bool:
        # A recent data file that no metadata lists may belong to a save in progress.
        modified = operations.Stat(self.fs.concat_path(self.path, name)).modified
        return modified is not None and time.time() - modified > LITTER


def storages(upstream: list[type], reader: bool) -> list[type]:
    """Return the storage classes that torch tries, in order: gfile's, then upstream's."""
    return [Reader if reader else Writer, *upstream]


def _named(path: str) -> frozenset[str]:
    """Return the data files listed by the metadata file at `path`; empty if it is unreadable."""
    try:
        with Open(path, "rb") as file:
            return _names(pickle.load(file))
    except (FileNotFoundError, *_UNREADABLE):
        return frozenset()


def _names(metadata: Any) -> frozenset[str]:
    return frozenset(info.relative_path for info in (metadata.storage_data or {}).values())
