# SPDX-License-Identifier: Apache-2.0
"""C++ extensions in the static PAR: refused before anything is compiled, in one line that says what they need."""

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


@pytest.mark.parametrize("code", [_INLINE, _SOURCES], ids=["inline", "sources"])
def test_an_extension_says_what_it_needs(code: str, tmp_path: pathlib.Path) -> None:
    outcome = program.interpreter(
        tmp_path / "cache", "-c", code, TORCH_EXTENSIONS_DIR=str(tmp_path / "extensions")
    )
    assert outcome.status == 1
    line = outcome.err.splitlines()[-1]
    assert line.startswith("RuntimeError: C++ extension three: torch is part of ")
    assert "Link the extension into that program when it is built" in line
    assert [*tmp_path.rglob("*.so"), *tmp_path.rglob("build.ninja")] == []
