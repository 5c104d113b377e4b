# SPDX-License-Identifier: Apache-2.0
"""Build stubs of the CUDA libraries that PyPI's torchvision links against, so that it loads.

PyPI's torchvision is built for CUDA. Its CPU operators are the reference for tpu, but its library
does not load with torch's CPU build. The stubs define the functions that it imports from CUDA's
libraries. They fail as they would on a machine without a GPU, but CPU tensors never need them.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

_DIRECTORY = "torch_google_cuda_stand_in"
# cudaErrorNoDevice, which stubs named cuda* return. All other stubs return 0.
_NO_DEVICE = 100


def build(site: Path) -> None:
    """Compile the stubs for the torchvision in `site`, a site-packages directory.

    This needs `nm` and a C compiler (CC or cc). Raises CalledProcessError if one of them fails.
    """
    libraries = sorted((site / "torchvision").glob("*.so"))
    symbols = undefined(libraries)
    directory = site / _DIRECTORY
    directory.mkdir(exist_ok=True)
    for soname, names in symbols.items():
        _compile(directory / soname, soname, names)


def load() -> None:
    """Load the stubs into this process, if `build` has compiled them for this environment."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return
    load_from(Path(spec.origin).parents[1])


def load_from(site: Path) -> None:
    """Load the stubs that `build` has compiled for `site` into this process."""
    for library in sorted((site / _DIRECTORY).glob("*.so*")):
        ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)


def undefined(libraries: Iterable[Path]) -> dict[str, set[str]]:
    """Return the CUDA functions that `libraries` import, keyed by the CUDA library's soname."""
    functions: defaultdict[str, set[str]] = defaultdict(set)
    for library in libraries:
        listing = subprocess.run(
            ["nm", "--dynamic", "--undefined-only", str(library)],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        for line in listing.splitlines():
            name, _, version = line.split()[-1].partition("@")
            soname = _soname(name, version.lstrip("@"))
            if soname:
                functions[soname].add(name)
    return dict(functions)


def _soname(name: str, version: str) -> str | None:
    if name.startswith(("cuda", "__cuda")):
        return version or "libcudart.so"
    if name.startswith(("_ZN3c104cuda", "_ZNK3c104cuda")):
        return "libc10_cuda.so"
    if name.startswith(("_ZN2at4cuda", "_ZNK2at4cuda")):
        return "libtorch_cuda.so"
    return None


def _compile(library: Path, soname: str, names: Iterable[str]) -> None:
    lines = []
    for name in sorted(names):
        status = _NO_DEVICE if name.startswith("cuda") else 0
        lines.append(f"long {name}(void) {{ return {status}; }}")
    with tempfile.TemporaryDirectory() as scratch:
        source, script = Path(scratch, "stand_in.c"), Path(scratch, "versions")
        source.write_text("\n".join(lines) + "\n", encoding="utf-8")
        # libcudart's symbols are versioned, and the version is the library's soname.
        script.write_text(f"{soname} {{ global: *; }};\n", encoding="utf-8")
        versions = [f"-Wl,--version-script={script}"] if "cudart" in soname else []
        subprocess.run(
            [
                os.environ.get("CC", "cc"),
                "-shared",
                "-fPIC",
                "-fno-builtin",
                f"-Wl,-soname,{soname}",
                *versions,
                f"-o{library}",
                str(source),
            ],
            check=True,
        )
