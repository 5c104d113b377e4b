# SPDX-License-Identifier: Apache-2.0
"""Build `torch_google/tpu/_C.so` next to the sources, for the installed torch.

For development in a virtual environment, run `python torch_google/tpu/csrc/develop.py`; Bazel
builds the same library from BUILD. The script first generates the operator policy table with
operator_policy.py. A source file is recompiled if it, or a header that it includes, has changed.
torch's headers are precompiled once. The library is replaced atomically, so a running process keeps
the old one.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import stat
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import torch
from torch.utils.cpp_extension import include_paths

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[2]
_FLAGS = (
    *("-O2", "-g0", "-std=c++20", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wno-sign-compare"),
    *("-fno-math-errno", "-Winvalid-pch", "-DAT_PER_OPERATOR_HEADERS"),
    f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
)
_LIBRARIES = ("-lc10", "-ltorch", "-ltorch_cpu", "-ltorch_python")
# Headers that most source files include, and that take the longest to parse.
_SLOW_HEADERS = ("torch/csrc/utils/pybind.h", "torch/library.h", "ATen/core/Tensor.h")


def main(argv: list[str]) -> int:
    if argv:
        print(f"develop.py: takes no argument, got {argv[0]!r}", file=sys.stderr)
        return 1
    os.nice(10)
    objects = _objects()
    library = Path(torch.__file__).parent / "lib"
    output = _HERE.parent / "_C.so"
    aside = objects / output.name
    try:
        _generate(objects)
        prefix = _prefix(objects)
        # Compile the newest source first, because it is the most likely to have errors.
        newest = sorted(_HERE.glob("*.cpp"), key=lambda path: -path.stat().st_mtime)
        compiled = sorted(_compile(source, objects, prefix) for source in newest)
        _run(
            "-shared",
            *map(str, compiled),
            "-o",
            str(aside),
            f"-L{library}",
            *_LIBRARIES,
            f"-Wl,-rpath,{library}",
        )
    except subprocess.CalledProcessError as failed:
        return failed.returncode
    written = output.with_suffix(".new")
    written.write_bytes(aside.read_bytes())
    written.chmod(0o755)
    written.replace(output)
    return 0


def _objects() -> Path:
    """Return the directory for object files.

    Its name depends on torch's version and path, the compiler's flags and the checkout's path.
    Exits if another user could write to it.
    """
    inputs = repr((torch.__version__, torch.__file__, _FLAGS, str(_ROOT)))
    name = f"torch_google_tpu_{hashlib.sha256(inputs.encode()).hexdigest()[:16]}"
    folder = Path(tempfile.gettempdir()) / name
    with contextlib.suppress(FileExistsError):  # whatever it is, the check below looks at it
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if (
        not stat.S_ISDIR(status.st_mode)
        or status.st_uid != os.getuid()
        or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ):
        sys.exit(f"{folder} is not a directory that only you can write to. Remove it or set TMPDIR")
    return folder


def _generate(objects: Path) -> None:
    """Write the operator policy table. If it is unchanged, the file keeps its timestamp."""
    command = [sys.executable, str(_HERE / "operator_policy.py")]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    table = objects / _HERE.relative_to(_ROOT) / "operator_policy_table.inc"
    if not (table.exists() and table.read_text() == text):
        table.parent.mkdir(parents=True, exist_ok=True)
        table.write_text(text)


def _prefix(objects: Path) -> Path:
    """Return the header that all sources include first. Precompile it if necessary."""
    header = objects / "torch_headers.h"
    compiled = header.with_suffix(".h.gch")
    text = "".join(f"#include <{name}>\n" for name in _SLOW_HEADERS)
    if not (compiled.exists() and header.exists() and header.read_text() == text):
        header.write_text(text)
        print(header.name, flush=True)
        _run("-x", "c++-header", str(header), "-o", str(compiled), *_includes())
    return header


def _compile(source: Path, objects: Path, prefix: Path) -> Path:
    target = objects / f"{source.stem}.o"
    if not _is_current(target):
        print(source.name, flush=True)
        _run(
            *("-include", str(prefix), "-c", str(source), "-o", str(target)),
            *("-MMD", "-MF", str(target.with_suffix(".d"))),
            *_includes(),
            f"-I{objects}",
        )
    return target


def _is_current(target: Path) -> bool:
    """Return whether an object is newer than every file in its depfile, `object: file file ...`."""
    depfile = target.with_suffix(".d")
    if not (target.exists() and depfile.exists()):
        return False
    names = depfile.read_text().replace("\\\n", " ").partition(":")[2].split()
    built = target.stat().st_mtime
    return all(Path(name).exists() and Path(name).stat().st_mtime < built for name in names)


def _includes() -> list[str]:
    paths = [*include_paths(), sysconfig.get_paths()["include"]]
    return [
        f"-I{_ROOT}",
        f"-I{_xla_headers()}",
        *(flag for path in paths for flag in ("-isystem", path)),
    ]


def _xla_headers() -> Path:
    """Return jaxlib's directory of XLA FFI headers. `ffi.include_dir()` would import JAX."""
    spec = importlib.util.find_spec("jaxlib")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("develop.py: no jaxlib. Install it in this environment")
    return Path(spec.origin).parent / "include"


def _run(*arguments: str) -> None:
    subprocess.run(["g++", *_FLAGS, *arguments], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
