# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest

from tools.presubmit.checks import promises, sample_tree

_TESTS = {
    "a/x_test.py": "def test_one() -> None: ...\nasync_ = 1\n    def test_two(self) -> None: ...\n",
    "a/inner/y_test.py": "def test_three_of_them() -> None: ...\n",
    "b/BUILD": 'par_test(\n    name = "z_test",\n)\n',
    "b/w_test.py": "",
}


def _found(root: pathlib.Path, cell: str, **more: str) -> list[str]:
    table = f"| promise | test |\n|---|---|\n| `|` is kept | {cell} |\n"
    page = sample_tree.write(root, {**_TESTS, "a/README.md": table, **more})
    return [f"{problem.path}:{problem.line}: {problem.what}" for problem in promises.find(page)]


@pytest.mark.parametrize(
    "cell",
    [
        "`x_test`",
        "`x_test.py`, `inner/y_test.py`",
        "`y_test::test_three_of_them`",
        "`test_two`, by hand",
        "`test_three_...`, `..._of_them`",
        "`//b:z_test`",
        "`//b:w_test`",
        "`strict` runs `x_test`",
    ],
)
def test_accepts(tmp_path: pathlib.Path, cell: str) -> None:
    assert _found(tmp_path, cell) == []


@pytest.mark.parametrize(
    "cell",
    [
        "`z_test`",
        "`x_test::test_three_of_them`",
        "`test_four`",
        "`//b:x_test`",
        "`//b:z_test::test_one`",
        "`..._of_us`",
    ],
)
def test_rejects_tests_that_do_not_exist(tmp_path: pathlib.Path, cell: str) -> None:
    assert _found(tmp_path, f"`x_test`, {cell}") == [f"a/README.md:3: no test {cell.strip('`')}"]


@pytest.mark.parametrize("cell", ["", "by hand", "`strict`", "x_test"])
def test_rejects_a_row_without_a_test(tmp_path: pathlib.Path, cell: str) -> None:
    assert _found(tmp_path, cell) == ["a/README.md:3: no test"]


def test_a_part_of_a_room_names_tests_of_the_room(tmp_path: pathlib.Path) -> None:
    table = "| promise | test |\n|---|---|\n| x | `x_test` |\n"
    contents = {"r/a/b/README.md": table, "r/a/c/x_test.py": ""}
    (problem,) = promises.find(sample_tree.write(tmp_path, contents))
    assert problem.what == "no test x_test"
    with_readme = contents | {"r/a/README.md": "A room."}
    assert [*promises.find(sample_tree.write(tmp_path, with_readme))] == []


def test_other_tables_are_not_judged(tmp_path: pathlib.Path) -> None:
    contents = {
        "a/README.md": "| reason | test |\n|---|---|\n| x | `no_test` |\n",
        "a/TABLE.md": "| promise | test |\n|---|---|\n| x | `no_test` |\n",
    }
    assert [*promises.find(sample_tree.write(tmp_path, contents))] == []


def test_the_page_links_every_table(tmp_path: pathlib.Path) -> None:
    (missing,) = _found(tmp_path, "`x_test`", **{"tests/README.md": "[b](../b/README.md)\n"})
    assert missing.endswith("no link to the promises of a/README.md")
    linked = {"tests/README.md": "[a](../a/README.md#promises)\n"}
    assert _found(tmp_path, "`x_test`", **linked) == []


def test_a_comparison_names_its_tests(tmp_path: pathlib.Path) -> None:
    tools = "importer | copybara | Electron | quilt | StGit | git rebase"
    rows = f"| undo | yes{' | -' * 5} | `test_one` |\n| more | yes{' | -' * 5} | `test_none` |\n"
    table = f"| point | {tools} | test |\n|{'---|' * 8}\n{rows}"
    page = sample_tree.write(tmp_path, {**_TESTS, "a/README.md": table})
    assert [problem.what for problem in promises.find(page)] == ["no test test_none"]
