# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.importer.engine import Change, Outcome, carry, record_base, render_patch
from tools.importer.errors import UserError
from tools.importer.rewrites.patch_file import patch_files, regenerated_patch, same_patch
from tools.importer.rewrites.rule import Kept, Rule
from tools.importer.rewrites.run import check_guards, decisions, generated, run_rule
from tools.importer.rewrites.torch_rules import MODULE_LISTING, PACKED_RESOURCES
from tools.importer.series import Series, load_series
from tools.importer.snapshot import Blob, DictSnapshot, OverlaySnapshot
from tools.par.testing.budget import examples

_READS = (
    b"import torch\n\ndef words():\n    with open(HERE / 'words.txt') as f:\n        return f\n"
)
_V1 = {"torch/a.py": b"HERE = Path(__file__).parent\n" + _READS, "torch/b.py": b"open(path)\n"}
# In v2, the call in torch/a.py passes the path in a variable, and torch/b.py has a new call that
# opens another module's file.
_V2 = {
    "torch/a.py": _V1["torch/a.py"].replace(b"with open(HERE / 'words.txt')", b"with open(WORDS)")
    + b"\nWORDS = HERE / 'words.txt'\n",
    "torch/b.py": b"import torch\nopen(torch.util.__file__)\n",
}


def _snapshot(files: Mapping[str, bytes], label: str = "v1") -> DictSnapshot:
    return DictSnapshot(label, {path: Blob(data) for path, data in files.items()})


def _rule(expected: Mapping[str, Mapping[str, int]], *kept: Kept) -> Rule:
    return dataclasses.replace(PACKED_RESOURCES, expected=expected, kept=kept)


def _series(root: Path, rule: Rule, files: Mapping[str, bytes]) -> Series:
    (root / "series").write_text("")
    patches = patch_files(load_series(root), _snapshot(files), "v1", rules=[rule])
    (root / "series").write_text("".join(f"{name}\n" for name in patches))
    for name, data in patches.items():
        (root / name).write_bytes(data)
    return load_series(root)


def test_a_new_call_is_found_where_a_diff_would_not_see_it(tmp_path: Path) -> None:
    rule = _rule({"v1": {"torch/a.py": 1}})
    series = _series(tmp_path, rule, _V1)
    new = _snapshot(_V2, "v2")

    # A three-way merge changes only the call in the patch, not the one that upstream added in v2.
    merged = carry(series, record_base(series, _snapshot(_V1)), new, keep_going=True)
    assert "torch/b.py" not in merged.files

    with pytest.raises(UserError) as raised:
        run_rule(rule, new, "v2")
    assert str(raised.value) == (
        "rewrite packed-resources, v2: torch/b.py has 1, expected 0 [torch/b.py:2: "
        "open(torch.util.__file__)]. Look whether each should be rewritten, then give v2 its numbers "
        "in patches/torch/rewrites.txt, or list it there as kept"
    )
    # Once the user has recorded the new call, the rule rewrites both calls without a merge.
    known = _rule({"v1": {"torch/a.py": 1}, "v2": {"torch/a.py": 1, "torch/b.py": 1}})
    decided = decisions(series, new, "v2", rules=[known])
    carried = carry(series, record_base(series, _snapshot(_V1)), new, decisions=decided)
    assert [result.outcome for result in carried.results] == [Outcome.RESOLVED]
    patch = regenerated_patch(series.patches[0], new, "v2", rules=[known])
    assert same_patch(carried.series_files()["packed-resources.patch"], patch)
    assert patch.count(b"\n+") - patch.count(b"\n+++") == 2


def test_the_committed_patch_is_what_the_rule_makes(tmp_path: Path) -> None:
    rule = _rule({"v1": {"torch/a.py": 1}})
    series = _series(tmp_path, rule, _V1)
    (patch,) = series.patches
    committed = (tmp_path / patch.name).read_bytes()
    assert patch.header["Rewrite"] == rule.name
    assert same_patch(
        committed, patch_files(series, _snapshot(_V1), "v1", rules=[rule])[patch.name]
    )
    assert not same_patch(committed.replace(b"Owner: packaging", b"Owner: me"), committed)
    assert not same_patch(committed.replace(b"open_resource", b"other"), committed)


def test_a_generated_patch_stands_before_written_ones(tmp_path: Path) -> None:
    rule = _rule({"v1": {"torch/a.py": 1}})
    (generated_patch,) = _series(tmp_path, rule, _V1).patches
    header = b"".join(
        f"{key}: {text}\n".encode()
        for key, text in generated_patch.header.items()
        if key != "Rewrite"
    )
    change = Change("torch/b.py", "torch/b.py", Blob(b"open(path)\n"), Blob(b"x\n"))
    (tmp_path / "by-hand.patch").write_bytes(render_patch(header, [change]))
    (tmp_path / "series").write_text("by-hand.patch\npacked-resources.patch\n")
    with pytest.raises(UserError, match=r"series:2: packed-resources.patch .* Move its line up"):
        generated(load_series(tmp_path))


def test_fewer_calls_than_expected_are_told() -> None:
    with pytest.raises(UserError, match="torch/a.py has 1, expected 2 .*; torch/c.py has 0, expec"):
        run_rule(_rule({"v1": {"torch/a.py": 2, "torch/c.py": 1}}), _snapshot(_V1), "v1")


def test_files_that_the_origin_does_not_hold_are_not_expected() -> None:
    class _Partial(DictSnapshot):
        def carries(self, path: str) -> bool:
            return path != "torch/c.py"

    snapshot = _Partial("v1", {path: Blob(data) for path, data in _V1.items()})
    rule = _rule({"v1": {"torch/a.py": 1, "torch/c.py": 1}})
    assert set(run_rule(rule, snapshot, "v1").files) == {"torch/a.py"}


def test_a_release_that_is_not_in_the_table_is_to_be_as_the_newest() -> None:
    rule = _rule({"v1": {"torch/a.py": 1}, "v0": {}})
    assert run_rule(rule, _snapshot(_V1), "v9").files
    assert run_rule(rule, _snapshot(_V1), "main").files
    with pytest.raises(UserError, match="v0: torch/a.py has 1, expected 0"):
        run_rule(rule, _snapshot(_V1), "v0")


@pytest.mark.parametrize(
    "call", [b"Path(__file__).read_bytes()", b'open(__file__, "rb")', b"open(__file__, mode)"]
)
def test_a_call_that_the_rule_cannot_rewrite_is_refused(call: bytes) -> None:
    files = {**_V1, "torch/b.py": b"x = 1\n" + call + b"\n"}
    with pytest.raises(UserError) as raised:
        run_rule(_rule({"v1": {"torch/a.py": 1}}), _snapshot(files), "v1")
    assert f"1 left on a path from __file__: torch/b.py:2: {call.decode()}. " in str(raised.value)
    assert "Patch it, teach the rule to, or list it as kept" in str(raised.value)


def test_a_kept_call_stays_and_another_beside_it_does_not() -> None:
    kept = Kept("torch/b.py", "key", "hashes itself where it is installed")
    body = b"def key():\n    return open(__file__, 'rb')\n"
    rule = _rule({"v1": {"torch/a.py": 1}}, kept)
    done = run_rule(rule, _snapshot({**_V1, "torch/b.py": body}), "v1")
    assert [str(site) for site in done.kept[kept]] == ["torch/b.py:2: open(__file__, 'rb')"]
    assert set(done.files) == {"torch/a.py"}
    more = _snapshot({**_V1, "torch/b.py": body + b"    return Path(__file__).read_bytes()\n"})
    with pytest.raises(UserError, match="2 left on a path"):
        run_rule(rule, more, "v1")


def test_a_variable_in_the_way_is_told() -> None:
    files = {"torch/a.py": b"import torch\ndef f(torch):\n    return open(__file__)\n"}
    with pytest.raises(UserError, match=r"'torch' is another variable in: torch/a.py:3: "):
        run_rule(_rule({"v1": {"torch/a.py": 1}}), _snapshot(files), "v1")


def test_the_guard_looks_at_the_patched_tree() -> None:
    listing = b"import os\nfor name in os.listdir(os.path.dirname(__file__)):\n    pass\n"
    tree = _snapshot({"torch/a.py": listing})
    rule = dataclasses.replace(MODULE_LISTING, kept=())
    with pytest.raises(UserError, match=r"module-listing, v1: 1 left .* torch/a.py:2: os.listdir"):
        check_guards(tree, "v1", rules=[rule])
    check_guards(OverlaySnapshot(tree, {"torch/a.py": Blob(b"import os\n")}), "v1", rules=[rule])


def test_what_is_outside_the_scope_is_not_looked_at() -> None:
    files = dict.fromkeys(("tools/a.py", "torch/testing/b.py"), b"open(__file__)\n")
    assert run_rule(_rule({"v1": {}}), _snapshot(files), "v1").files == {}


def test_links_and_modes_stay() -> None:
    files = {
        "torch/a.py": Blob(_V1["torch/a.py"], "100755"),
        "torch/b.py": Blob(b"../__file__/open(__file__).py", "120000"),
    }
    done = run_rule(_rule({"v1": {"torch/a.py": 1}}), DictSnapshot("v1", files), "v1")
    assert {path: blob.mode for path, blob in done.files.items()} == {"torch/a.py": "100755"}


def test_what_python_cannot_read_is_named_and_untouched() -> None:
    files = {**_V1, "torch/b.py": b"# coding: latin-1\nopen(__file__ + '\xe9')\n"}
    done = run_rule(_rule({"v1": {"torch/a.py": 1}}), _snapshot(files), "v1")
    assert done.unread == ("torch/b.py",)
    assert set(done.files) == {"torch/a.py"}


_STATEMENTS = st.sampled_from(
    [
        "x = open(__file__)",
        "with open(\n    HERE / 'é',  # why\n) as f:\n    pass",
        "def f(p):\n\treturn open(p, encoding='utf-8')",
        "f(HERE)",
        "y = (HERE / 'b').read_text()",
        "z = _read_file(HERE)",
        "text = 'open(__file__) é'",
        "open(other)",
        "if x:\n    import torch.nn\n",
        "from __future__ import annotations",
        "import os",
        "# a comment  ",
        "\x0c",
        "",
    ]
)
_PROGRAMS = st.tuples(
    st.lists(_STATEMENTS, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans()
)


def _program(parts: tuple[list[str], str, bool, bool]) -> bytes:
    statements, newline, mark, open_end = parts
    future = [each for each in statements if "__future__" in each][:1]
    rest = [each for each in statements if "__future__" not in each]
    text = "\n".join([*future, "HERE = Path(__file__).parent", *rest]) + "\n" * (not open_end)
    return b"\xef\xbb\xbf" * mark + text.replace("\n", newline).encode()


def _free(data: bytes) -> bytes:
    """Rewrite one file with run_rule. Its expected call count is set to the file's actual count."""
    snapshot = _snapshot({"torch/a.py": data})
    want = {"torch/a.py": _count(data)}
    done = run_rule(_rule({"v1": {path: n for path, n in want.items() if n}}), snapshot, "v1")
    return done.files["torch/a.py"].data if done.files else data


def _count(data: bytes) -> int:
    calls = [b"open(__file__)\n", b"open(\n", b"open(p, ", b"'b').read_text()", b"_read_file(HERE)"]
    text = data.replace(b"\r\n", b"\n") + b"\n"
    count = sum(text.count(call) for call in calls)
    passed = b"\nf(HERE)\n" in text and b"def f(p)" in text
    return count - (0 if passed else text.count(b"open(p, "))


@settings(max_examples=examples(60), deadline=None)
@given(_PROGRAMS)
def test_rewriting_twice_is_rewriting_once(parts: tuple[list[str], str, bool, bool]) -> None:
    once = _free(_program(parts))
    assert run_rule(_rule({"v1": {}}), _snapshot({"torch/a.py": once}), "v1").files == {}
    compile(once, "a.py", "exec", dont_inherit=True)


@settings(max_examples=examples(60), deadline=None)
@given(_PROGRAMS)
def test_all_other_bytes_stay(parts: tuple[list[str], str, bool, bool]) -> None:
    data = _program(parts)
    newline = parts[1].encode()
    back = _free(data).replace(b"import torch._utils_internal" + newline, b"")
    back = back.replace(b"torch._utils_internal.open_resource((HERE / 'b')).read()", b"B")
    back = back.replace(b"torch._utils_internal.open_resource(HERE).read()", b"R")
    back = back.replace(b"torch._utils_internal.open_resource", b"open")
    same = data.replace(b"(HERE / 'b').read_text()", b"B").replace(b"_read_file(HERE)", b"R")
    assert back.replace(b"open(p)", b"open(p, encoding='utf-8')") == same


@settings(max_examples=examples(40), deadline=None)
@given(st.text(), st.binary())
def test_anything_else_is_left_alone(text: str, data: bytes) -> None:
    files = {"torch/a.py": b"__file__ open(" + data, "torch/b.py": f"# __file__ {text}".encode()}
    assert run_rule(_rule({"v1": {}}), _snapshot(files), "v1").files == {}
