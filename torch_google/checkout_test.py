# SPDX-License-Identifier: Apache-2.0
"""If Python starts in a checkout that shadows an installed package, a warning says what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import torch_google


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Create a checkout without compiled code, and in `site` a package that has compiled code."""
    tree = tmp_path / "checkout"
    _package(tree / "torch_google")
    (tree / "MODULE.bazel").touch()
    _package(tmp_path / "site/torch_google")
    (tmp_path / "site/torch_google/tpu/_C.so").touch()
    information = tmp_path / "site/torch_google-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_google\nVersion: 1\n")
    (information / "entry_points.txt").write_text(
        "[torch.backends]\ntpu = torch_google.tpu:autoload\n"
    )
    return tree


def _package(directory: Path) -> None:
    """Create a torch_google package whose device module only issues the real module's warning."""
    (directory / "tpu").mkdir(parents=True)
    for name in ("__init__.py", "checkout.py"):
        source = Path(torch_google.__path__[0], name)
        (directory / name).write_bytes(source.read_bytes())
    (directory / "tpu/__init__.py").write_text(
        "import warnings\n"
        "def autoload():\n"
        "    try:\n"
        "        from torch_google.tpu import _C\n"
        "    except ImportError as error:\n"
        "        text = f'tpu: torch goes on without the device: {error}. Install torch_google'\n"
        "        warnings.warn(text, stacklevel=2)\n"
    )


def _run(checkout: Path, program: str, *path: str) -> subprocess.CompletedProcess[str]:
    """Run a program in the checkout. `path` comes first in sys.path, and `site` comes last."""
    start = f"import sys; sys.path[:0] = {list(path)!r}; sys.path.append('../site')\n"
    done = subprocess.run(
        [sys.executable, "-c", start + program],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_one_warning_names_both_packages_and_the_next_step(checkout: Path) -> None:
    text = _run(checkout, "import torch", "").stderr
    assert text.count("torch_google is imported from the source tree") == 1
    assert "tpu: torch goes on without the device" not in text
    assert f"imported from the source tree {checkout}, which comes first in sys.path" in text
    assert f"hides the package installed as {checkout.parent}/site/torch_google." in text
    assert "Start Python in another directory or as `python -P`" in text


def test_an_installed_package_is_quiet(checkout: Path) -> None:
    done = _run(checkout, "import torch_google; print(torch_google.__path__[0])", "../site")
    assert Path(checkout, done.stdout.strip()).resolve() == checkout.parent / "site/torch_google"
    assert done.stderr == ""


def test_a_built_checkout_is_quiet(checkout: Path) -> None:
    (checkout / "torch_google/tpu/_C.so").touch()
    assert _run(checkout, "import torch_google", "").stderr == ""


def test_a_checkout_without_an_installed_package_is_quiet(checkout: Path) -> None:
    (checkout.parent / "site/torch_google/tpu/_C.so").unlink()
    assert _run(checkout, "import torch_google", "").stderr == ""
