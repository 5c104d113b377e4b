# SPDX-License-Identifier: Apache-2.0
"""Search torch's sources and native libraries for the environment variables that torch reads."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

PATTERN = re.compile(r"(?:PY)?TORCH[A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]")
_IN_A_LIBRARY = re.compile(rb"\0(" + PATTERN.pattern.encode("ascii") + rb")(?=\0)")

_CODE = "a macro or a name in generated C++ code"
# Strings that only look like the names of environment variables, each with its actual meaning.
_NOT_READ = {
    "TORCHSCRIPT_FUNCTION": "a label in profiles",
    "TORCH_CHECK": _CODE,
    "TORCH_CHECK_TENSOR_SUBTYPE": _CODE,
    "TORCH_EXTENSION_NAME": _CODE,
    "TORCH_FUNCTION_MODE_STACK": "a type of Dynamo's guards",
    "TORCH_HIP_VERSION": _CODE,
    "TORCH_INDUCTOR_CPP_WRAPPER": _CODE,
    "TORCH_INDUCTOR_PRECOMPILE_HEADERS": _CODE,
    "TORCH_LIBRARY": _CODE,
    "TORCH_LIBRARY_FRAGMENT": _CODE,
    "TORCH_LIBRARY_IMPL": _CODE,
}


def read_names(root: Path, libraries: Path) -> dict[str, dict[str, Any]]:
    """Return a record for each name: `readers` and, if the name is in _NOT_READ, `left_out`.

    `root` is the directory of torch's sources, possibly inside an archive. `libraries` is the
    directory of torch's native libraries, which is empty if torch is linked into this program.
    """
    readers: dict[str, set[str]] = {}
    for name in _native_names(libraries):
        readers.setdefault(name, set()).add("native")
    for package, text in sources(root):
        if "TORCH" in text:
            tests = package.startswith("testing") or package.endswith(
                ("test_case", "test_minifier")
            )
            for name in _names_of(text):
                readers.setdefault(name, set()).add("tests" if tests else "python")
    facts_by_name = {}
    for name, name_readers in sorted(readers.items()):
        facts: dict[str, Any] = {"readers": sorted(name_readers)}
        if name in _NOT_READ:
            facts["left_out"] = _NOT_READ[name]
        facts_by_name[name] = facts
    return facts_by_name


def sources(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the name (without `torch.`) and the source of each module, read with torch's loader."""
    import torch

    assert torch.__spec__ is not None
    loader: Any = torch.__spec__.loader
    pending = [("", str(root))]
    while pending:
        prefix, directory = pending.pop()
        for info in iter_modules([directory]):
            path = os.path.join(directory, info.name)
            if info.ispkg:
                pending.append((f"{prefix}{info.name}.", path))
                path = os.path.join(path, "__init__")
            try:
                yield prefix + info.name, loader.get_data(f"{path}.py").decode("utf-8")
            except OSError:
                continue  # a native module has no source


def _names_of(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and PATTERN.fullmatch(text):
            yield text


def _native_names(libraries: Path) -> Iterator[str]:
    # If there are no library files, torch is linked into the executable: search that instead.
    for path in sorted(libraries.glob("lib*.so*")) or [Path("/proc/self/exe")]:
        for match in _IN_A_LIBRARY.finditer(path.read_bytes()):
            yield match[1].decode("ascii")
