# SPDX-License-Identifier: Apache-2.0
"""Provide sys.executable: a path that starts this same program as a Python interpreter.

multiprocessing's spawn and forkserver, torchrun and build helpers run it with -c, -m or a file. It
is a symbolic link named python3 that points to the PAR. If no directory is writable, it is instead
an in-memory script with the PAR's path in its "#!" line.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import _par

from par_runtime import cache

if TYPE_CHECKING:
    from _par_importer import Runtime


def interpreter_path(runtime: Runtime) -> str:
    if runtime.layout == "runfiles":
        return str(runtime.settings["python"])
    if runtime.raised:
        return ""  # with elevated privileges, the launcher refuses to run as an interpreter
    program = runtime.program
    label = f"{_par.hash(os.fsencode(program)):016x}"
    for directory in cache.directories(runtime):
        link = os.path.join(directory, "bin", label, "python3")
        try:
            if os.readlink(link) == program:
                return link
        except OSError:
            if os.access(directory, os.W_OK) and _make_link(link, program):
                return link
    return _in_memory(program)


def _make_link(link: str, program: str) -> bool:
    partial = f"{link}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(link), mode=0o700, exist_ok=True)
        os.symlink(program, partial)
        os.replace(partial, link)
    except OSError:
        return False
    return True


def _in_memory(program: str) -> str:
    fd = os.memfd_create("python3", os.MFD_CLOEXEC)
    os.write(fd, b"#!" + os.fsencode(program) + b" --par-interpreter\n")
    os.fchmod(fd, 0o500)
    # Do not use /proc/self, because a child that has closed its descriptors must still find the
    # file.
    return f"/proc/{os.getpid()}/fd/{fd}"
