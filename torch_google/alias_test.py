# SPDX-License-Identifier: Apache-2.0
"""torch.google and torch_google are the same modules, regardless of their import order."""

from __future__ import annotations

import subprocess
import sys

import pytest

_INSTALL = "from torch_google.entry_points import loaded; import torch; loaded()\n"


def _run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments, *(["-c", program] if program else [])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "imports",
    [
        "import torch.google.gfile, torch_google.gfile",
        "import torch_google.gfile, torch.google.gfile",
        "from torch.google import gfile; import torch_google.gfile",
    ],
)
def test_both_names_are_one_module(imports: str) -> None:
    program = (
        f"{imports}\n"
        "import sys, torch\n"
        "a, b = torch.google.gfile, sys.modules['torch_google.gfile']\n"
        "print(a is b, torch.google is sys.modules['torch_google'], a.__name__, a.__spec__.name)"
    )
    assert _run(_INSTALL + program) == "True True torch_google.gfile torch_google.gfile"


def test_a_plain_import_of_torch_has_it() -> None:
    assert _run(_INSTALL + "print(torch.google.__name__)") == "torch_google"


def test_a_name_that_is_not_there_is_named_as_asked() -> None:
    program = "try: import torch.google.nothing\nexcept ImportError as error: print(error)"
    assert _run(_INSTALL + program) == "No module named 'torch.google.nothing'"


def test_reload_and_pickle_know_the_real_name() -> None:
    program = (
        "import importlib, pickle, torch.google.gfile as g\n"
        "importlib.reload(torch.google)\n"
        "print(pickle.loads(pickle.dumps(g.Retry)) is g.Retry, g.Retry.__module__)"
    )
    assert _run(_INSTALL + program) == "True torch_google.gfile.retry"


def test_installing_twice_is_once() -> None:
    program = (
        "from torch_google import alias\n"
        "import sys; alias.install(); alias.install()\n"
        "print(sum(type(f).__name__ == '_AliasFinder' for f in sys.meta_path))"
    )
    assert _run(program) == "1"


def test_it_can_be_run_by_its_alias() -> None:
    program = (
        "import runpy, io, contextlib\n"
        "out = runpy.run_module('torch.google.entry_points')\n"
        "print('loaded' in out)"
    )
    assert _run(_INSTALL + program) == "True"
