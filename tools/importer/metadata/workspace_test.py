# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.metadata import sample_workspace
from tools.importer.metadata.metadata_file import load_metadata, loads
from tools.importer.metadata.workspace import (
    Problem,
    check_all,
    render_all,
    render_workspace,
    write_all,
)
from tools.importer.project import SBOM, load_project

_REAL = Path(__file__).parents[3]
_DAY = datetime.date(2030, 2, 3)
_NEXT = {**sample_workspace.PIN, "tag": "v1.1", "version": "1.1+cpu"}


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    return sample_workspace.make(tmp_path)


def test_this_workspace_is_up_to_date() -> None:
    stale = check_all(_REAL)
    assert not stale, "; ".join(map(str, stale))


def test_every_room_with_a_pin_has_its_file() -> None:
    rooms = {file.parent.name for file in (_REAL / "third_party").glob("*/METADATA")}
    assert {"buildifier", "python", "torch", "zlib"} < rooms
    assert {path.split("/")[1] for path in render_workspace(_REAL) if path != SBOM} == rooms


def test_an_import_moves_the_project_and_the_bill(root: Path) -> None:
    before = {path: (root / path).read_bytes() for path in (SBOM, "third_party/zlib/METADATA")}
    files = render_all(load_project(root), _NEXT, today=_DAY)
    assert list(files) == [SBOM, "third_party/torch/METADATA"]
    torch = loads(files["third_party/torch/METADATA"].decode())
    assert (torch.version, torch.last_upgrade) == ("v1.1", _DAY)
    assert torch.local_modifications == "patches/torch/v1.1"
    bill = json.loads(files[SBOM])
    (package,) = [row for row in bill["packages"] if row["name"] == "torch"]
    assert package["versionInfo"] == "1.1+cpu"
    assert bill["creationInfo"]["created"] == "2030-02-03T00:00:00Z"
    # The check has not written any file.
    assert before == {path: (root / path).read_bytes() for path in before}


def test_an_import_of_the_same_pin_changes_nothing(root: Path) -> None:
    files = render_all(load_project(root), sample_workspace.PIN, today=_DAY)
    assert files == {path: (root / path).read_bytes() for path in files}


def test_what_an_import_wrote_is_up_to_date(root: Path) -> None:
    for path, data in render_all(load_project(root), _NEXT, today=_DAY).items():
        (root / path).write_bytes(data)
    (root / "third_party" / "torch" / "pin.json").write_text(json.dumps(_NEXT))
    assert check_all(root) == []


def test_the_wheel_for_cuda_changes_only_the_bill(root: Path) -> None:
    pin = root / "third_party" / "torch" / "cuda" / "pin.json"
    pin.parent.mkdir()
    pin.write_text(json.dumps(sample_workspace.TORCH_CUDA_PIN))
    assert write_all(root) == [SBOM]
    bill = json.loads((root / SBOM).read_text())
    versions = {row["versionInfo"] for row in bill["packages"] if row["name"] == "torch"}
    assert versions == {"1.0+cpu", "1.1+cu1"}


def test_a_moved_pin_is_found_and_written(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unchanged = root / "third_party" / "torch" / "METADATA"
    before = unchanged.stat()
    pin = root / "third_party" / "buildifier" / "pin.json"
    pin.write_text(pin.read_text().replace("8.0", "8.1"))
    assert check_all(root) == [
        Problem(path, "differs from the generated content", "Run `tools/import.py metadata`")
        for path in ("third_party/buildifier/METADATA", SBOM)
    ]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1893456000")  # the first day of 2030
    assert write_all(root) == ["third_party/buildifier/METADATA", SBOM]
    moved = load_metadata(root / "third_party" / "buildifier" / "METADATA")
    assert (moved.version, moved.last_upgrade) == ("8.1", datetime.date(2030, 1, 1))
    assert (check_all(root), write_all(root)) == ([], [])
    assert (unchanged.stat().st_mtime_ns, unchanged.stat().st_ino) == (
        before.st_mtime_ns,
        before.st_ino,
    )
    assert not list(root.rglob(".*"))  # no temporary files are left


def test_edits_by_people_stay(root: Path) -> None:
    file = root / "third_party" / "zlib" / "METADATA"
    file.write_text(
        file.read_text().replace("What zlib is for.", "Deflate.").replace("MIT", "Zlib")
    )
    assert write_all(root) == [SBOM]
    assert load_metadata(file).description == "Deflate."
    assert '"licenseDeclared": "Zlib"' in (root / SBOM).read_text()


def test_a_missing_file_is_one_problem(root: Path) -> None:
    (root / "third_party" / "zlib" / "METADATA").unlink()
    (problem,) = check_all(root)
    assert problem.path == "third_party/zlib/METADATA"
    assert problem.what.startswith("no such file. Write one with name, description")
    assert problem.next_step.endswith("run `tools/import.py metadata`")
    with pytest.raises(UserError, match="zlib/METADATA: no such file"):
        write_all(root)


def test_a_folder_in_the_way_is_the_machines_fault(root: Path) -> None:
    (root / SBOM).unlink()
    (root / SBOM).mkdir()
    with pytest.raises(EnvironmentProblem, match=f"{SBOM}: "):
        write_all(root)
