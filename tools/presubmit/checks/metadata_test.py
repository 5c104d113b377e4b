# SPDX-License-Identifier: Apache-2.0
import pathlib

from tools.importer.metadata import sample_workspace
from tools.presubmit import tree
from tools.presubmit.checks import metadata, sample_tree


def _files(root: pathlib.Path) -> tree.Tree:
    return tree.Tree(root, [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()])


def test_accepts(tmp_path: pathlib.Path) -> None:
    assert [*metadata.find(_files(sample_workspace.make(tmp_path)))] == []


def test_a_tree_without_third_party_has_no_metadata(tmp_path: pathlib.Path) -> None:
    assert [*metadata.find(sample_tree.write(tmp_path, {"a.py": "x = 1\n"}))] == []


def test_a_moved_pin_is_stale(tmp_path: pathlib.Path) -> None:
    pin = sample_workspace.make(tmp_path) / "third_party" / "buildifier" / "pin.json"
    pin.write_text(pin.read_text().replace("8.0", "8.1"))
    problems = [*metadata.find(_files(tmp_path))]
    assert [each.path for each in problems] == [
        "third_party/buildifier/METADATA",
        "third_party/sbom.spdx.json",
    ]
    assert problems[0].next_step == "Run `tools/import.py metadata`"


def test_what_cannot_be_read_is_placed(tmp_path: pathlib.Path) -> None:
    file = sample_workspace.make(tmp_path) / "third_party" / "zlib" / "METADATA"
    file.write_text('name: "zlib"\ndescription: [\n')
    (problem,) = metadata.find(_files(tmp_path))
    assert (problem.path, problem.line) == ("third_party/zlib/METADATA", 2)
    assert problem.what == "cannot read '['"
