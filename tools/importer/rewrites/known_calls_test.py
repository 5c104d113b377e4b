# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from tools.importer.errors import UserError
from tools.importer.rewrites.known_calls import with_known_calls, with_proposals
from tools.importer.rewrites.rule import Kept
from tools.importer.rewrites.run import examine, run_rule
from tools.importer.rewrites.torch_rules import PACKED_RESOURCES, RULES
from tools.importer.snapshot import Blob, DictSnapshot

_DATA = b"""# words
packed-resources keep torch/b.py::key -- hashes itself

packed-resources rewrite v1 torch/a.py x1
packed-resources rewrite v2 torch/a.py x2
module-listing keep torch/b.py::<module> x2 -- Windows
"""


def _loaded(data: bytes) -> dict[str, tuple[Kept, ...]]:
    return {rule.name: rule.kept for rule in with_known_calls(RULES, data, "rewrites.txt")}


def test_a_line_keeps_a_call_or_counts_those_that_are_rewritten() -> None:
    resources, listing = with_known_calls(RULES, _DATA, "rewrites.txt")
    assert resources.kept == (Kept("torch/b.py", "key", "hashes itself"),)
    assert listing.kept == (Kept("torch/b.py", "<module>", "Windows", most=2),)
    assert [
        resources.matches_in(label) for label in ("v0.9", "v1", "v2-rc1", "v2", "v10", "main")
    ] == [{"torch/a.py": number} for number in (1, 1, 1, 2, 2, 2)]


def test_a_count_of_none_ends_what_an_older_release_had() -> None:
    data = b"packed-resources rewrite v1 torch/a.py x1\npacked-resources rewrite v2 torch/a.py x0\n"
    (rule, _) = with_known_calls(RULES, data, "rewrites.txt")
    assert rule.matches_in("v1") == {"torch/a.py": 1}
    assert rule.matches_in("v2") == {}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("packed-resources keep torch/a.py::f --", r":1: no reason after `--`"),
        ("packed-resources keep torch/a.py::f", r":1: '.*' is not a valid line. Write `RULE keep "),
        ("packed-resources keep torch/a.py::f x0 -- why", r":1: '.*' is not a valid line"),
        ("packed-things keep torch/a.py::f -- why", r":1: no rule 'packed-things'. Name one of: "),
        ("packed-resources keep docs/a.py::f -- why", r":1: 'docs/a.py' is outside the rule"),
        ("module-listing rewrite v1 torch/a.py x1", r":1: module-listing rewrites nothing"),
        ("packed-resources keep torch/a.py::f -- a\n" * 2, r":2: the same as line 1"),
    ],
)
def test_a_wrong_line_is_named(line: str, message: str) -> None:
    with pytest.raises(UserError, match=f"^rewrites.txt{message}"):
        _loaded(f"{line}\n".encode())


def test_proposals_stand_with_their_like_and_are_no_data_before_a_person_settles_them() -> None:
    files = {
        "torch/a.py": Blob(b"x = open(__file__)\n"),
        "torch/b.py": Blob(b"def key():\n    open(__file__, 'rb')\n    open(__file__, 'rb')\n"),
        "torch/c.py": Blob(b"x = open(__file__, 'rb')\n"),
    }
    snapshot = DictSnapshot("v3", files)
    rule = with_known_calls([PACKED_RESOURCES], _DATA[: _DATA.index(b"module")], "w")[0]
    findings = examine(rule, snapshot, "v3").findings
    assert [each.path for each in findings] == ["torch/a.py", "torch/b.py", "torch/c.py"]
    text = with_proposals(_DATA, findings, "v3").decode()
    with pytest.raises(UserError, match="is not a valid line"):
        _loaded(text.encode())
    settled = [line for line in text.splitlines() if line[:7] not in ("<<<<<<<", ">>>>>>>")]
    assert settled == [
        "# words",
        "packed-resources keep torch/b.py::key x2 -- hashes itself",
        "packed-resources keep torch/c.py::<module> --",
        "",
        "packed-resources rewrite v1 torch/a.py x1",
        "packed-resources rewrite v2 torch/a.py x2",
        "packed-resources rewrite v3 torch/a.py x1",
        "module-listing keep torch/b.py::<module> x2 -- Windows",
    ]
    done = "\n".join(settled).replace("<module> --", "<module> -- why").encode()
    again = with_known_calls(RULES, done, "rewrites.txt")[0]
    assert set(run_rule(again, snapshot, "v3").files) == {"torch/a.py"}


def test_proposals_may_be_the_first_lines() -> None:
    snapshot = DictSnapshot("v1", {"torch/a.py": Blob(b"x = open(__file__, 'rb')\n")})
    findings = examine(PACKED_RESOURCES, snapshot, "v1").findings
    lines = with_proposals(b"", findings, "v1").decode().split("\n")
    assert lines[1:] == [
        "packed-resources keep torch/a.py::<module> --",
        ">>>>>>> to keep it, write the reason behind -- and delete the marker lines",
        "",
    ]


def test_no_data_is_no_known_call() -> None:
    assert not any(_loaded(b"").values())
    assert Path(__file__).with_name("torch_rules.py").read_text().count("Kept(") == 0
