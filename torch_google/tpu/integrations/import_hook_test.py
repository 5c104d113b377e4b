# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.machinery
import importlib.resources
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from torch_google.tpu.integrations.import_hook import after_import


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Create a package with a module `late` and a data file, and yield its name."""
    name = "sample_of_import_hook"
    directory = tmp_path / name
    directory.mkdir()
    (directory / "__init__.py").write_text("")
    (directory / "late.py").write_text("value = 1\n")
    (directory / "data.txt").write_text("data")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    for module in [module for module in sys.modules if module.startswith(name)]:
        del sys.modules[module]


def test_the_function_runs_once_after_the_module(package: str) -> None:
    seen: list[int] = []

    def extend(module: ModuleType) -> None:
        seen.append(module.value)
        module.value = 2  # type: ignore[attr-defined]

    after_import(f"{package}.late", extend)
    after_import(f"{package}.late", extend)
    assert seen == []
    late = importlib.import_module(f"{package}.late")
    assert (seen, late.value) == ([1], 2)
    importlib.import_module(f"{package}.late")
    assert seen == [1]


def test_a_module_that_is_imported_is_extended_now(package: str) -> None:
    late = importlib.import_module(f"{package}.late")
    seen: list[ModuleType] = []
    after_import(f"{package}.late", seen.append)
    assert seen == [late]


def test_the_module_keeps_its_own_loader(package: str) -> None:
    after_import(package, lambda module: None)
    after_import(f"{package}.late", lambda module: None)
    late = importlib.import_module(f"{package}.late")
    assert late.__spec__ is not None
    assert late.__loader__ is late.__spec__.loader
    assert isinstance(late.__loader__, importlib.machinery.SourceFileLoader)
    assert importlib.resources.files(package).joinpath("data.txt").read_text() == "data"


def test_an_error_of_the_function_is_one_of_the_import(package: str) -> None:
    def fail(module: ModuleType) -> None:
        raise RuntimeError(f"cannot extend {module.__name__}")

    after_import(f"{package}.late", fail)
    with pytest.raises(RuntimeError, match="cannot extend"):
        importlib.import_module(f"{package}.late")


def test_a_module_that_does_not_exist_is_still_missing(package: str) -> None:
    after_import(f"{package}.absent", lambda module: None)
    with pytest.raises(ModuleNotFoundError, match="absent"):
        importlib.import_module(f"{package}.absent")
