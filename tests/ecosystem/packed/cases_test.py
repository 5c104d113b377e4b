# SPDX-License-Identifier: Apache-2.0
"""In this packed program, the cases of its libraries have the verdicts that results.json publishes.

ECOSYSTEM_LIBRARIES names the libraries. A shard runs all of its cases in one sequence of child
processes, which start from the same PAR, so that few processes import the libraries.
"""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

import pytest

from tests.ecosystem import results, supervisor
from tests.ecosystem.results import Row
from tests.ecosystem.supervisor import Outcome

# The time limit for a case in one mode, on a machine that is busy with other tests.
_SECONDS = 600.0
_LIBRARIES = os.environ["ECOSYSTEM_LIBRARIES"].split()


def _published() -> dict[str, dict[str, Row]]:
    """Return the published rows of the libraries: by case, then by mode."""
    rows: dict[str, dict[str, Row]] = {}
    for row in results.read(files("tests.ecosystem") / "results.json"):
        if row.library in _LIBRARIES:
            rows.setdefault(f"{row.library}/{row.case}", {})[row.mode] = row
    return rows


_PUBLISHED = _published()


@pytest.fixture(scope="session")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Outcome]:
    """Run all cases that pytest selected, in all of their modes. Map keys to outcomes."""
    cases = [
        item.callspec.params["case"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and "outcomes" in item.fixturenames
    ]
    keys = [f"{case}:{mode}" for case in cases for mode in _PUBLISHED[case]]
    # Bazel keeps this directory, so that the traceback of a failed case can be read.
    kept = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR") or tmp_path_factory.mktemp("log")
    ended = supervisor.outcomes(keys, seconds=_SECONDS, log=Path(kept, "cases.log"))
    return {outcome.key: outcome for outcome in ended}


@pytest.mark.parametrize("case", sorted(_PUBLISHED))
def test_the_verdicts_are_the_published_ones(case: str, outcomes: dict[str, Outcome]) -> None:
    differences = []
    for mode, row in _PUBLISHED[case].items():
        outcome = outcomes[f"{case}:{mode}"]
        if outcome.verdict != row.verdict:
            differences.append(f"{mode}: {outcome.verdict}, not {row.verdict}: {outcome.cause}")
    assert not differences, "; ".join(differences)


def test_each_library_has_a_published_case() -> None:
    assert _LIBRARIES
    assert {case.partition("/")[0] for case in _PUBLISHED} == set(_LIBRARIES)
