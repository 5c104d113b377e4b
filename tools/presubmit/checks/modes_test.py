# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest

from tools.presubmit.checks import modes, sample_tree


@pytest.mark.parametrize(
    ("text", "mode", "next_steps"),
    [
        ("#!/bin/sh\n", 0o755, []),
        ("x = 1\n", 0o644, []),
        ("", 0o644, []),
        ("#!/bin/sh\n", 0o644, ["run: chmod +x a"]),
        ("x = 1\n", 0o755, ["run: chmod -x a"]),
    ],
)
def test_mode(tmp_path: pathlib.Path, text: str, mode: int, next_steps: list[str]) -> None:
    files = sample_tree.write(tmp_path, {"a": text})
    (tmp_path / "a").chmod(mode)
    assert [problem.next_step for problem in modes.find(files)] == next_steps
