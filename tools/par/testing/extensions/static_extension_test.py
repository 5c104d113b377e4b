# SPDX-License-Identifier: Apache-2.0
"""Test two C extensions with the same name and a C program, all linked into this interpreter."""

from __future__ import annotations

import ctypes
import importlib
import pickle
import subprocess
import sys
from types import ModuleType

import pytest

_PACKAGE = "tools.par.testing.extensions"


@pytest.fixture(params=[("first", 1), ("second", 2)], ids=["single-phase", "multi-phase"])
def extension(request: pytest.FixtureRequest) -> tuple[ModuleType, str, int]:
    package, answer = request.param
    name = f"{_PACKAGE}.{package}._native"
    return importlib.import_module(name), name, answer


def test_it_is_the_right_one(extension: tuple[ModuleType, str, int]) -> None:
    module, _, answer = extension
    assert module.answer() == answer


def test_it_knows_its_full_name(extension: tuple[ModuleType, str, int]) -> None:
    module, name, _ = extension
    assert module.__name__ == name
    assert module.__spec__ is not None
    assert (module.__spec__.name, module.__spec__.origin) == (name, "static")


def test_its_functions_pickle(extension: tuple[ModuleType, str, int]) -> None:
    module, _, answer = extension
    assert pickle.loads(pickle.dumps(module.answer))() == answer


def test_no_file_stands_for_it(extension: tuple[ModuleType, str, int]) -> None:
    module, _, _ = extension
    assert not hasattr(module, "__file__")


@pytest.mark.parametrize("called", ["extensions_program", "/somewhere/extensions_program"])
def test_a_program_inside_runs_when_it_is_called_by_its_name(called: str) -> None:
    done = subprocess.run(
        [called, "--an", "argument"],
        executable=sys.executable,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (3, [called, "--an", "argument"])
    assert done.stderr == ""


def test_shared_libraries_may_take_what_is_exported_and_nothing_else() -> None:
    program = ctypes.CDLL(None)
    assert program.extensions_exported_answer() == 42
    with pytest.raises(AttributeError, match="extensions_program_main"):
        _ = program.extensions_program_main
