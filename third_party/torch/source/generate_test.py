# SPDX-License-Identifier: Apache-2.0
"""Generated files are moved to their listed paths. A missing or unlisted file is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from third_party.torch.source import generate


def generated_files(tmp_path: Path, *names: str) -> Path:
    root = tmp_path / "made"
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def test_sources_go_to_their_files_and_the_rest_below_the_headers(tmp_path: Path) -> None:
    root = generated_files(tmp_path, "ATen/A.cpp", "ATen/ops/a.h", "torch/b.py")
    source = tmp_path / "out" / "A.cpp"
    generate.distribute(root, tmp_path / "headers", {"ATen/A.cpp": source})
    assert source.read_text() == "ATen/A.cpp"
    headers = tmp_path / "headers"
    assert sorted(p.relative_to(headers).as_posix() for p in headers.rglob("*.*")) == [
        "ATen/ops/a.h",
        "torch/b.py",
    ]


def test_nothing_names_the_folder_that_the_generator_wrote_to(tmp_path: Path) -> None:
    root = generated_files(tmp_path, "lazy/A.cpp")
    (root / "lazy/A.cpp").write_text(f'#include "{root}/lazy/A.h"')
    source = tmp_path / "out" / "A.cpp"
    generate.distribute(root, tmp_path / "headers", {"lazy/A.cpp": source})
    assert source.read_text() == '#include "lazy/A.h"'


def test_a_source_that_no_list_has_is_named(tmp_path: Path) -> None:
    root = generated_files(tmp_path, "ATen/RegisterNew.cpp")
    with pytest.raises(generate.GenerateError, match=r"made ATen/RegisterNew\.cpp.*lists\.bzl"):
        generate.distribute(root, tmp_path / "headers", {})


def test_a_source_that_was_not_made_is_named(tmp_path: Path) -> None:
    root = generated_files(tmp_path, "ATen/ops/a.h")
    with pytest.raises(generate.GenerateError, match=r"did not make ATen/Operators_5\.cpp"):
        generate.distribute(
            root, tmp_path / "headers", {"ATen/Operators_5.cpp": tmp_path / "o.cpp"}
        )


@pytest.mark.parametrize("name", ["ATen/RegisterCUDA.cpp", "ATen/OperatorsEverything.cpp"])
def test_what_this_build_does_not_compile_is_passed_over(tmp_path: Path, name: str) -> None:
    generate.distribute(generated_files(tmp_path, name), tmp_path / "headers", {})
    assert not (tmp_path / "headers").exists()
