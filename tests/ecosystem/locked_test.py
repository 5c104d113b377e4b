# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest

from tests.ecosystem import install, locked
from third_party.pypi import lock


def test_the_locks_match_their_inputs_and_the_workspace() -> None:
    assert locked.problems() == []


def test_a_changed_group_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "digest", lambda lines, alone: "other")
    problems = locked.problems()
    assert len(problems) == len(locked.groups())
    assert all(".in is not what " in problem for problem in problems)
    assert all(problem.endswith(locked.UPDATE) for problem in problems)


def test_pip_gets_every_wheel_with_its_hash() -> None:
    lines = locked.pip_lines(locked.groups())
    pattern = r"[\w.-]+==\S+ --hash=sha256:[0-9a-f]{64}"
    assert [line for line in lines if not re.fullmatch(pattern, line)] == []
    names = [line.partition("==")[0] for line in lines]
    assert len(names) == len(set(names))
    assert {"torch", "jax", "transformers", "lightning"} <= set(names)


def test_a_part_has_no_wheels_of_other_groups() -> None:
    names = {line.partition("==")[0] for line in locked.pip_lines(["pyg"])}
    assert "torch-geometric" in names
    assert "transformers" not in names


def test_the_environment_has_the_wheels_entry_points() -> None:
    build = (locked.REQUIREMENTS.parents[2] / "torch_google" / "BUILD").read_text()
    points = install.entry_points(build)
    assert "torch.backends: tpu = torch_google.tpu:autoload" in points
