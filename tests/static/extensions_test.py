# SPDX-License-Identifier: Apache-2.0
"""The static PAR rejects C++ extensions before compiling them, and its error says what to do."""

from __future__ import annotations

import pathlib

import pytest

from tests.static import program

_INLINE = """
from torch.utils import cpp_extension
cpp_extension.load_inline("three", "int three() { return 3; }", functions=["three"])
"""
_SOURCES = """
from torch.utils import cpp_extension
cpp_extension.load("three", ["three.cpp"], is_python_module=False)
"""
_SETUP = """
from torch.utils import cpp_extension
cpp_extension.CppExtension("three", ["three.cpp"])
"""


@pytest.mark.parametrize(
    "code", [_INLINE, _SOURCES, _SETUP], ids=["inline", "sources", "setuptools"]
)
def test_an_extension_says_what_it_needs(code: str, tmp_path: pathlib.Path) -> None:
    outcome = program.interpreter(
        tmp_path / "cache", "-c", code, TORCH_EXTENSIONS_DIR=str(tmp_path / "extensions")
    )
    assert outcome.status == 1
    line = outcome.err.splitlines()[-1]
    assert line.startswith("RuntimeError: C++ extension three: torch is part of ")
    assert "Link the extension into that program when it is built" in line
    written = tmp_path / "extensions"
    assert [*written.rglob("*.so"), *written.rglob("build.ninja")] == []
