# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.importer.commands import main
from tools.importer.errors import ExitCode
from tools.importer.metadata import sample_workspace


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    return sample_workspace.make(tmp_path)


def _run(root: Path, *arguments: str) -> int:
    return main.main(["metadata", "--workspace", str(root), *arguments])


def _move(root: Path) -> Path:
    pin = root / "third_party" / "buildifier" / "pin.json"
    pin.write_text(pin.read_text().replace("8.0", "8.1"))
    return root / "third_party" / "buildifier" / "METADATA"


def test_it_writes_what_is_stale_once(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    current = "all METADATA files and the bill of materials match the pins\n"
    assert _run(root) == ExitCode.NOTHING_TO_DO
    assert capsys.readouterr().out == current
    file = _move(root)
    assert _run(root) == ExitCode.DONE
    assert 'version: "8.1"' in file.read_text()
    assert capsys.readouterr().out.splitlines() == [
        "wrote third_party/buildifier/METADATA",
        "wrote third_party/sbom.spdx.json",
    ]
    assert _run(root, "--check") == ExitCode.DONE
    assert capsys.readouterr().out == current


@pytest.mark.parametrize(
    ("option", "status"), [("--check", ExitCode.USER_ERROR), ("--dry-run", ExitCode.DONE)]
)
def test_it_can_only_look(
    root: Path, capsys: pytest.CaptureFixture[str], option: str, status: ExitCode
) -> None:
    file = _move(root)
    before = file.read_bytes()
    assert _run(root, option) == status
    assert file.read_bytes() == before
    first, _ = capsys.readouterr().out.splitlines()
    assert first == (
        "third_party/buildifier/METADATA: differs from the generated content. Run `tools/import.py metadata`"
    )


def test_machines_get_the_paths(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _move(root)
    assert _run(root, "--json", "--check") == ExitCode.USER_ERROR
    problems = json.loads(capsys.readouterr().out)["problems"]
    assert [row["path"] for row in problems] == [
        "third_party/buildifier/METADATA",
        "third_party/sbom.spdx.json",
    ]
    assert _run(root, "--json") == ExitCode.DONE
    assert json.loads(capsys.readouterr().out) == {"written": [row["path"] for row in problems]}


def test_what_cannot_be_read_is_a_user_error(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "third_party" / "zlib" / "METADATA").unlink()
    assert _run(root) == ExitCode.USER_ERROR
    assert "zlib/METADATA: no such file" in capsys.readouterr().err
