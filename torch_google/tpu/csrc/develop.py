# SPDX-License-Identifier: Apache-2.0
"""Build `torch_google/tpu/_C` beside the sources, against the torch that runs this.

For work in a plain virtual environment: `python torch_google/tpu/csrc/develop.py`. Bazel builds the
same from BUILD. A unit is compiled again when it or any header of the room is newer.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import torch
from torch.utils.cpp_extension import include_paths

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[2]
_FLAGS = ("-O2", "-g0", "-std=c++20", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wno-sign-compare")
_LIBRARIES = ("-lc10", "-ltorch", "-ltorch_cpu", "-ltorch_python")


def main(argv: list[str]) -> int:
    if argv:
        print(f"develop.py: takes no argument, got {argv[0]!r}", file=sys.stderr)
        return 1
    sources = sorted(_HERE.glob("*.cpp"))
    newest = max(header.stat().st_mtime for header in _HERE.glob("*.h"))
    objects = Path(tempfile.gettempdir()) / f"torch_google_tpu_{torch.__version__}_{_ROOT.name}"
    objects.mkdir(exist_ok=True)
    compiled = [objects / f"{source.stem}.o" for source in sources]
    for source, target in zip(sources, compiled, strict=True):
        if target.exists() and target.stat().st_mtime > max(newest, source.stat().st_mtime):
            continue
        print(source.name, flush=True)
        done = _run("-c", str(source), "-o", str(target), *_includes())
        if done:
            return done
    library = Path(torch.__file__).parent / "lib"
    output = _HERE.parent / "_C.so"
    return _run(
        "-shared",
        *map(str, compiled),
        "-o",
        str(output),
        f"-L{library}",
        *_LIBRARIES,
        f"-Wl,-rpath,{library}",
    )


def _includes() -> list[str]:
    paths = [*include_paths(), sysconfig.get_paths()["include"]]
    return [f"-I{_ROOT}", *(flag for path in paths for flag in ("-isystem", path))]


def _run(*arguments: str) -> int:
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"
    return subprocess.run(["g++", *_FLAGS, abi, *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
