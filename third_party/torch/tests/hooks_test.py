# SPDX-License-Identifier: Apache-2.0
"""By default, hooks change nothing. `import torch` first calls the `torch.seam` entry points."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from torch._seam import GROUP, Hook, install_hooks

_PACKAGE = """
import sys
assert "torch._C" not in sys.modules, "torch was there before"
def install():
    sys.modules["torch._seam"].installed_by_test = "torch._logging" not in sys.modules
"""


def _double(number: int) -> int:
    """Return twice the number."""
    return 2 * number


def _distribution(root: Path, target: str) -> None:
    info = root / "another_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: another_package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nours = {target}\n")


def test_a_hook_is_upstreams_until_replaced() -> None:
    hook = Hook(_double)
    assert (hook(2), hook.replaced, hook.__doc__) == (4, False, "Return twice the number.")
    hook.install(lambda number: hook.upstream(number) + 1)
    assert (hook(2), hook.replaced) == (5, True)
    hook.restore()
    assert (hook(2), hook.replaced) == (4, False)


def test_an_entry_point_runs_before_torch_starts(tmp_path: Path) -> None:
    (tmp_path / "package_of_test.py").write_text(_PACKAGE)
    _distribution(tmp_path, "package_of_test:install")
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
        "import torch; print(torch._seam.installed_by_test)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_an_entry_point_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _distribution(tmp_path, "no_such_module:install")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RuntimeError, match="'ours = no_such_module:install' of torch.seam failed"):
        install_hooks()
