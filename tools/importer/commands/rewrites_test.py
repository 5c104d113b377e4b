# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.importer import rewrites
from tools.importer.commands.sample_workspace import SampleWorkspace, make_workspace
from tools.importer.engine import base_files, record_base
from tools.importer.origins.local import TreeOrigin
from tools.importer.origins.origin import Revision
from tools.importer.report import make_report
from tools.importer.series import load_series

_READS = 'import torch\n\nwith open(__file__ + "/../words.txt") as f:\n    words = f.read()\n'
_FILES = {"torch/a.py": _READS, "torch/b.py": "x = open(path)\n"}
_PATCH = "patches/torch/v1/packed-resources.patch"


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SampleWorkspace:
    """Create a workspace without patches, and a release with one call that a rule matches."""
    rule, guard = rewrites.RULES
    small = dataclasses.replace(rule, expected={"v1": {"torch/a.py": 1}}, kept=())
    monkeypatch.setattr(rewrites, "RULES", (small, dataclasses.replace(guard, kept=())))
    sample = make_workspace(tmp_path)
    (sample.root / "patches/torch/v1").mkdir(parents=True)
    (sample.root / "patches/torch/v1/series").write_text("# Ours.\n")
    _release(sample, _FILES)
    return sample


def _release(sample: SampleWorkspace, files: dict[str, str]) -> None:
    """Write the release, and record it as the base of the patch series."""
    tree = sample.release("v1", files)
    snapshot = TreeOrigin(tree, make_report(as_json=True)).find(Revision("v1", None))
    directory = sample.root / "patches/torch/v1"
    for name, data in base_files(record_base(load_series(directory), snapshot)).items():
        (directory / name).write_bytes(data)


def test_a_patch_is_made_and_then_current(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sample.run("rewrites", "--series", "v1") == 1
    assert "packed-resources.patch is not what its rule generates" in capsys.readouterr().err
    assert sample.run("rewrites", "--update", "--series", "v1") == 0
    files = sample.files()
    assert b"\n+with torch._utils_internal.open_resource(__file__" in files[_PATCH]
    assert files["patches/torch/v1/series"] == b"packed-resources.patch\n# Ours.\n"
    assert "torch/a.py" in str(json.loads(files["patches/torch/v1/base.json"])["files"])
    capsys.readouterr()
    assert sample.run("rewrites", "--series", "v1") == 0
    assert "as its rule makes it: packed-resources.patch" in capsys.readouterr().out
    assert sample.run("rewrites", "--update", "--series", "v1") == 4
    assert sample.files() == files


def test_a_dry_run_writes_nothing(sample: SampleWorkspace) -> None:
    before = sample.files()
    assert sample.run("rewrites", "--update", "--series", "v1", "--dry-run") == 0
    assert sample.files() == before


def test_an_edited_patch_is_stale(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.run("rewrites", "--update", "--series", "v1")
    good = sample.files()[_PATCH]
    (sample.root / _PATCH).write_bytes(good.replace(b"open_resource", b"open_other"))
    assert sample.run("rewrites", "--check", "--series", "v1") == 1
    assert "Run `import.py rewrites --update`" in capsys.readouterr().err
    assert sample.run("--json", "rewrites", "--update", "--series", "v1") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["stale"] == ["packed-resources.patch"]
    assert sample.files()[_PATCH] == good


def test_a_call_that_is_left_stops_it(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.run("rewrites", "--update", "--series", "v1")
    _release(sample, {**_FILES, "torch/c.py": "import os\nos.listdir(os.path.dirname(__file__))\n"})
    for option in ("--check", "--update"):
        assert sample.run("rewrites", option, "--series", "v1") == 1
        error = capsys.readouterr().err
        assert "module-listing, v1: 1 left on a path from __file__: torch/c.py:2: os.list" in error


def test_other_commands_do_not_wait_for_libcst() -> None:
    program = "import sys, tools.importer.commands.main; print('libcst' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert answer.stdout == b"False\n"


def test_what_the_rules_cannot_read_is_told(
    sample: SampleWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    _release(sample, {**_FILES, "torch/c.py": "open(__file__\n"})
    assert sample.run("rewrites", "--update", "--series", "v1") == 0
    assert "no rule has checked torch/c.py (1 in all)" in capsys.readouterr().out
    assert sample.run("--json", "rewrites", "--series", "v1") == 0
    assert json.loads(capsys.readouterr().out)["unread_by_rewrites"] == ["torch/c.py"]
