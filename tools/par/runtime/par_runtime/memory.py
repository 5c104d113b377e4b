# SPDX-License-Identifier: Apache-2.0
"""Load libraries without a writable disk, by unpacking them to anonymous files in memory.

A library's dependencies are loaded before it. The dynamic linker then finds them by their sonames
and does not search the library's run path.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

import _par

from par_runtime import files

if TYPE_CHECKING:
    from _par_importer import Bundle


@functools.cache
def library(bundle: Bundle, relative: str) -> str:
    """Load a library's dependencies, unpack the library, and return its path in /proc/self/fd."""
    _load_needs(bundle, relative)
    return _memory_file(bundle, relative)


def _load_needs(bundle: Bundle, relative: str) -> None:
    owners = files.library_owners(bundle.runtime)
    for soname in files.natives(bundle)[relative][5]:
        if soname in owners and owners[soname] != (bundle, relative):
            _load(*owners[soname])


@functools.cache
def _load(bundle: Bundle, relative: str) -> None:
    _par.dlopen(library(bundle, relative))


@functools.cache
def _memory_file(bundle: Bundle, relative: str) -> str:
    _, offset, _, frames, *_ = files.natives(bundle)[relative]
    fd = os.memfd_create(os.path.basename(relative), os.MFD_CLOEXEC)
    bundle.archive.unpack([(relative, fd, offset, frames)], len(os.sched_getaffinity(0)))
    return f"/proc/self/fd/{fd}"
