# SPDX-License-Identifier: Apache-2.0
"""Test that a digest changes if and only if code that the case uses changes."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ecosystem import source
from tests.ecosystem.case import Case, Run, table

_MODULE = '''
import math
from math import cos, sin
from tests.ecosystem.case import EAGER, Run, case

_SIZE = 3
_OTHER = 4

def _scaled(x):
    """Scale."""
    return _SIZE * sin(x)

def sample(run: Run):
    return _scaled(1.0)

def other(run: Run):
    return _OTHER + cos(1.0)
'''


def _digests(code: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Return the digests of the cases `sample` and `other` in a module with this code."""
    name = f"cases_of_{directory.name}_{len(list(directory.iterdir()))}"
    Path(directory, f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(str(directory))
    module = importlib.import_module(name)
    monkeypatch.setitem(sys.modules, name, module)
    one, other = (source.digest(Case("x", row)) for row in (module.sample, module.other))
    return one, other


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("_scaled(1.0)", "_scaled(2.0)", (True, False)),
        ("_SIZE = 3", "_SIZE = 5", (True, False)),
        ("import cos, sin", "import cos\nfrom cmath import sin", (True, False)),
        ("_OTHER = 4", "_OTHER = 5", (False, True)),
        ('"""Scale."""', '"""Scale and more."""\n    # A reason.', (False, False)),
        ("import cos, sin", "import cos, sin, tan", (False, False)),
    ],
)
def test_a_change_in_a_module(
    old: str, new: str, changed: tuple[bool, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _digests(_MODULE, tmp_path, monkeypatch)
    after = _digests(_MODULE.replace(old, new), tmp_path, monkeypatch)
    assert (before[0] != after[0], before[1] != after[1]) == changed


@pytest.mark.parametrize(
    ("case", "old", "changed"),
    [
        ("timm/resnet", "0.01, 0.9", True),  # of Run.train, which the case calls
        ("timm/resnet", "value.to(self.device)", True),  # of Run.put, which Run.train calls
        ("timm/resnet", "device: torch.device", True),  # of the class
        ("timm/adan", "0.01, 0.9", False),
        ("timm/adan", "range(3)", True),  # of Run.optimize, which a function of the case calls
    ],
)
def test_a_method_of_run_is_part_of_the_cases_that_use_it(
    case: str, old: str, changed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = source.digest(table()[case])
    definition = source.definition

    def edited(module: str, name: str) -> tuple[str, list[tuple[str, str]]]:
        code, used = definition(module, name)
        return code.replace(old, "edited") if module == Run.__module__ else code, used

    monkeypatch.setattr(source, "definition", edited)
    assert (source.digest(table()[case]) != before) == changed


def test_tolerances_are_part_and_modes_are_not() -> None:
    case = next(iter(table().values()))
    assert source.digest(replace(case, rtol=0.5)) != source.digest(case)
    assert source.digest(replace(case, modes=("strict",))) == source.digest(case)
