# SPDX-License-Identifier: Apache-2.0
"""Tests of the board: upstream's behaviour by default; plug-ins are loaded before torch starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from torch._seam import GROUP, Hook, plug_in

_PLUG = """
import sys
assert "torch._C" not in sys.modules, "torch was there before"
def plug():
    sys.modules["torch._seam"].plugged_by_test = "torch._logging" not in sys.modules
"""


def _double(number: int) -> int:
    """Return twice the number."""
    return 2 * number


def _distribution(root: Path, target: str) -> None:
    info = root / "surroundings-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: surroundings\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nours = {target}\n")


def test_a_hook_answers_as_upstream_until_plugged() -> None:
    hook = Hook(_double)
    assert (hook(2), hook.plugged, hook.__doc__) == (4, False, "Return twice the number.")
    hook.plug(lambda number: hook.upstream(number) + 1)
    assert (hook(2), hook.plugged) == (5, True)
    hook.unplug()
    assert (hook(2), hook.plugged) == (4, False)


def test_an_entry_point_plugs_in_before_torch_starts(tmp_path: Path) -> None:
    (tmp_path / "plug_of_test.py").write_text(_PLUG)
    _distribution(tmp_path, "plug_of_test:plug")
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
        "import torch; print(torch._seam.plugged_by_test)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_an_entry_point_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _distribution(tmp_path, "no_such_module:plug")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RuntimeError, match="'ours = no_such_module:plug' of torch.seam failed"):
        plug_in()
