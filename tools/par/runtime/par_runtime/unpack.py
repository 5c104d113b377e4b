# SPDX-License-Identifier: Apache-2.0
"""Unpack a bundle's files that must be on disk, once for each hash of their contents.

The directory `<cache>/<name>-<hash>` is filled under a temporary name and then renamed, so it is
never seen incomplete. Later runs of the program check only the sizes of its libraries. If no
directory is writable, libraries are loaded from memory instead.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import os
from typing import TYPE_CHECKING, Any

from par_runtime import adjustments, cache, files, memory

if TYPE_CHECKING:
    from _par_importer import Bundle

_BATCH = 200  # the maximum number of files to have open at once
_FULL = (errno.ENOSPC, errno.EDQUOT)
_refused: set[str] = set()  # directories in which unpacking failed in this process


def native_path(bundle: Bundle, relative: str) -> str:
    """Return a file's path on disk. See `Loader.native_path`."""
    relative = os.fspath(relative).strip("/")
    if bundle.on_disk:
        return os.path.join(bundle.virtual_root, relative)
    group = "lib"
    if relative in files.developer_directories(bundle) or (
        relative not in files.natives(bundle) and files.is_developer(bundle, relative)
    ):
        group = "dev"
    try:
        directory = bundle_directory(bundle, group)
    except OSError:
        packed = files.natives(bundle).get(relative)
        if packed is None:
            raise
        return memory.library(bundle, relative)
    return os.path.join(directory, relative)


def extension_path(bundle: Bundle, relative: str) -> str:
    """Return the path from which to load an extension module of a packed bundle."""
    from par_runtime import machine_libraries

    if bundle.needs_machine:
        machine_libraries.provide(bundle.runtime)
    try:
        return os.path.join(bundle_directory(bundle, "lib"), relative)
    except OSError:
        return memory.library(bundle, relative)


def bundle_directory(bundle: Bundle, group: str) -> str:
    """Return the directory that contains a group of a bundle's files, and unpack them if needed.

    Group "lib" contains the libraries and, if the bundle is not zip-safe, all files. Group "dev"
    also contains the headers. Raises OSError if no directory is usable.
    """
    directory = _find_directory(bundle, group)
    if directory is None:
        name = os.path.basename(bundle.runtime.program)
        why = "no directory can hold them; set PAR_CACHE_DIR to one that can"
        if bundle.runtime.raised:
            why = "a program with raised rights writes none; clear the setuid bit"
        raise OSError(errno.EROFS, f"{name}: {bundle.name} needs files on disk and {why}")
    return directory


@functools.cache  # also caches a failure, so that a full disk is reported only once
def _find_directory(bundle: Bundle, group: str) -> str | None:
    program = bundle.runtime.program
    if group == "dev":
        python = next((b for b in bundle.runtime.bundles if b.name == "python_headers"), None)
        if python is not None and python is not bundle:
            bundle_directory(python, "dev")
    label = f"{bundle.name}-{bundle.stamp}" + (
        adjustments.DEVELOPER_SUFFIX if group == "dev" else ""
    )
    candidates = cache.directories(bundle.runtime)
    for directory in candidates:
        path = os.path.join(directory, label)
        if _complete(bundle, path):
            return path
    for directory in candidates:
        if directory in _refused or not os.access(directory, os.W_OK):
            continue
        try:
            return _unpack(bundle, group, directory, label)
        except OSError as error:
            _refused.add(directory)
            cache.say(program, _explain(bundle, directory, error))
    return None


def _explain(bundle: Bundle, directory: str, error: OSError) -> str:
    if error.errno in _FULL:
        need = sum(row[2] for row in files.natives(bundle).values()) >> 20
        reason = f"no space left ({bundle.name} needs about {need} MB)"
    else:
        reason = f"cannot unpack {bundle.name}: {error.strerror or error}"
    return f"cache {directory}: {reason}; trying elsewhere (PAR_CACHE_DIR=DIR chooses)"


def _complete(bundle: Bundle, path: str) -> bool:
    """Return whether all libraries have their full size; a power loss may have truncated them."""
    try:
        status = os.lstat(path)
        if status.st_uid not in (os.geteuid(), 0):
            return False
        for name, row in files.natives(bundle).items():
            if os.stat(os.path.join(path, name)).st_size != row[2]:
                return False
    except OSError:
        return False
    return True


def _unpack(bundle: Bundle, group: str, directory: str, label: str) -> str:
    path = os.path.join(directory, label)
    lock = os.open(os.path.join(directory, f".{label}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel unlocks it if this process is killed
        if _complete(bundle, path):
            return path
        prefix = f".{label}.new."
        for stale in os.listdir(directory):
            if stale.startswith(prefix):
                _remove(os.path.join(directory, stale))
        partial = os.path.join(directory, f"{prefix}{os.getpid()}")
        try:
            os.mkdir(partial, 0o700)
            _fill(bundle, group, partial)
            if os.path.lexists(path):
                _remove(path)  # an incomplete directory, because _complete rejected it
            os.rename(partial, path)
        except BaseException:
            _remove(partial)
            raise
    finally:
        os.close(lock)
    return path


def _fill(bundle: Bundle, group: str, target: str) -> None:
    directories = {target}

    def prepared(name: str) -> str:
        path = os.path.join(target, name)
        parent = os.path.dirname(path)
        if parent not in directories:
            os.makedirs(parent, exist_ok=True)
            directories.add(parent)
        return path

    natives = list(files.natives(bundle).items())
    threads = len(os.sched_getaffinity(0))
    for start in range(0, len(natives), _BATCH):
        jobs: list[tuple[str, int, int, Any]] = []
        try:
            for name, (mode, offset, _, frames, *_) in natives[start : start + _BATCH]:
                fd = os.open(
                    prepared(name), os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode & 0o777 | 0o200
                )
                jobs.append((name, fd, offset, frames))
            bundle.archive.unpack(jobs, threads)
        finally:
            for _, fd, *_ in jobs:
                os.close(fd)
    for name, row in files.on_disk(bundle, group):
        fd = os.open(prepared(name), os.O_CREAT | os.O_EXCL | os.O_WRONLY, row[5] & 0o777 | 0o200)
        with open(fd, "wb", buffering=0) as stream:
            data = memoryview(files.unpacked(bundle, name, row))
            while data:
                data = data[stream.write(data) :]


def _remove(path: str) -> None:
    """Remove a directory tree. If a file cannot be removed, leave the rest for the next run."""
    try:
        for base, directories, names in os.walk(path, topdown=False):
            for name in names:
                os.unlink(os.path.join(base, name))
            for name in directories:
                os.rmdir(os.path.join(base, name))
        os.rmdir(path)
    except OSError:
        return


__all__ = ["bundle_directory", "extension_path", "native_path"]
