# SPDX-License-Identifier: Apache-2.0
"""Test which file paths and link targets are allowed."""

from __future__ import annotations

import pytest

from tools.importer.archives.safe_path import check_link, check_nesting, check_path
from tools.importer.errors import UserError


@pytest.mark.parametrize(
    "path", ["a", "a/b.py", "a b/é", ".github/x", "a/..b", "...", ".gitignore", "a\\b"]
)
def test_plain_paths(path: str) -> None:
    assert check_path(path, "x") == path


@pytest.mark.parametrize(
    "path",
    ["", "/a", "..", "a/../b", "a//b", "a/", "./a", "a\0b", ".git/config", "a/.GIT/x"],
)
def test_paths_that_are_refused(path: str) -> None:
    with pytest.raises(UserError, match="^x.tar: the path .* distrust it$"):
        check_path(path, "x.tar")


@pytest.mark.parametrize(
    ("path", "target"), [("a/b", "../c"), ("b", "c/d"), ("a/b", ".."), ("a", ".")]
)
def test_links_that_stay(path: str, target: str) -> None:
    assert check_link(path, target, "x") == target


@pytest.mark.parametrize(
    ("path", "target"),
    [("a", ".."), ("a/b", "../../c"), ("a", "/c"), ("a", "b/../../c"), ("a", "b\0")],
)
def test_links_that_leave(path: str, target: str) -> None:
    with pytest.raises(UserError, match="^x.tar: the link .* leads out of the tree"):
        check_link(path, target, "x.tar")


def test_nesting() -> None:
    check_nesting(["a/b", "a/c/d", "ab"], "x")
    with pytest.raises(UserError, match="'a/b/c' lies below 'a/b'"):
        check_nesting(["a/b/c", "a/b"], "x")
