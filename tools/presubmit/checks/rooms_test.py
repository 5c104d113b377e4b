# SPDX-License-Identifier: Apache-2.0
import pathlib

from tools.presubmit.checks import rooms, sample_tree


def _found(root: pathlib.Path, contents: dict[str, str]) -> list[str]:
    return [problem.path for problem in rooms.find(sample_tree.write(root, contents))]


def test_rooms_and_rooms_of_buildings_need_one(tmp_path: pathlib.Path) -> None:
    contents = {
        "README.md": "The workspace.",
        ".ci/run": "",
        "examples/train.py": "",
        "tools/par/compiler/pack.py": "",
        "patches/torch/v1/series": "",
    }
    assert _found(tmp_path, contents) == [
        "examples/README.md",
        "patches/README.md",
        "tools/README.md",
        "tools/par/README.md",
    ]


def test_readme_with_text_is_enough(tmp_path: pathlib.Path) -> None:
    contents = {"examples/README.md": "# Examples\n\nOne idea each.\n", "examples/a/b.py": ""}
    assert _found(tmp_path, contents) == []


def test_headings_alone_are_not_enough(tmp_path: pathlib.Path) -> None:
    contents = {"examples/README.md": "# Examples\n\n## Use\n"}
    assert _found(tmp_path, contents) == ["examples/README.md"]
