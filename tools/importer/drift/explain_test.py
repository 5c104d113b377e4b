# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

import pytest

from tools.importer.drift import to_explanation
from tools.importer.drift.explain import _MEANINGS
from tools.importer.drift.table import Cell, FileCell, Release, Row, Table
from tools.importer.engine import Outcome
from tools.importer.errors import UserError

_RELEASES = (Release("v2", None, "--tag v2", {}), Release("v3", None, "--tag v3", {}))
_ROW = Row(
    "say-new.patch",
    "Say new",
    "us",
    "build",
    "None yet",
    (
        Cell(Outcome.OFFSET, "", (FileCell("a.py", "b.py", Outcome.OFFSET, "moved by +2"),)),
        Cell(
            Outcome.CONFLICT,
            "both changed line 3",
            (FileCell("a.py", "a.py", Outcome.CONFLICT, "", "-old\n+n\x1bew\n"),),
        ),
    ),
)
_TABLE = Table("v1", "0", None, _RELEASES, (_ROW,))


def test_one_patch_on_each_release() -> None:
    assert to_explanation(_TABLE, "say-new") == (
        "say-new.patch of v1: Say new\n"
        "Owner: us. Reason: build. Upstream: None yet\n"
        "\n"
        "v2: offset: its lines have moved; it is otherwise the same\n"
        "  a.py -> b.py: offset (moved by +2)\n"
        "\n"
        "v3: conflict: upstream changed the same lines; you decide\n"
        "  both changed line 3\n"
        "  a.py: conflict\n"
        "      -old\n"
        "      +n\\x1bew\n"
    )


def test_an_unknown_patch() -> None:
    with pytest.raises(UserError, match=r"has no such patch\. Did you mean say-new\.patch\?"):
        to_explanation(_TABLE, "say-now")


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_a_meaning(outcome: Outcome) -> None:
    assert _MEANINGS[outcome]
    row = dataclasses.replace(_ROW, cells=(Cell(outcome, "", ()),))
    table = dataclasses.replace(_TABLE, releases=_RELEASES[:1], rows=(row,))
    assert f"v2: {outcome.value}: {_MEANINGS[outcome]}\n" in to_explanation(table, "say-new")
