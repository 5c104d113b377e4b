# SPDX-License-Identifier: Apache-2.0
import datetime
import pathlib

from tools.presubmit.checks import sample_tree, series

_PATCH = """\
Subject: say more
Owner: build
Reason: build
Upstream: none
Extension-point-considered: none serves
Test: say_more_test

--- a/x.py
+++ b/x.py
@@ -1 +1 @@
-a
+b
"""


def test_accepts(tmp_path: pathlib.Path) -> None:
    contents = {"patches/p/v1/series": "say-more.patch\n", "patches/p/v1/say-more.patch": _PATCH}
    assert [*series.find(sample_tree.write(tmp_path, contents))] == []


def test_a_wrong_name_is_placed_and_answered(tmp_path: pathlib.Path) -> None:
    contents = {
        "patches/p/v1/series": "# order\nsay-mor.patch\n",
        "patches/p/v1/say-more.patch": _PATCH,
    }
    (problem,) = series.find(sample_tree.write(tmp_path, contents))
    assert (problem.path, problem.line) == ("patches/p/v1/series", 2)
    assert "say-mor.patch" in problem.what
    assert "Did you mean 'say-more.patch'?" in problem.next_step


def test_header_is_required(tmp_path: pathlib.Path) -> None:
    patch = _PATCH.replace("Owner: build\n", "")
    contents = {"patches/p/v1/series": "say-more.patch\n", "patches/p/v1/say-more.patch": patch}
    (problem,) = series.find(sample_tree.write(tmp_path, contents))
    assert problem.path == "patches/p/v1/say-more.patch"
    assert "Owner" in problem.what


def test_patch_without_series(tmp_path: pathlib.Path) -> None:
    (problem,) = series.find(sample_tree.write(tmp_path, {"third_party/x/fix.patch": _PATCH}))
    assert problem.path == "third_party/x/fix.patch"
    assert "series" in problem.what


def test_an_expired_patch_is_found_on_the_next_day(tmp_path: pathlib.Path) -> None:
    patch = _PATCH.replace("Test:", "Expires: 2030-01-31\nTest:")
    contents = {"patches/p/v1/series": "say-more.patch\n", "patches/p/v1/say-more.patch": patch}
    files = sample_tree.write(tmp_path, contents)
    assert [*series.find(files, today=datetime.date(2030, 1, 31))] == []
    (problem,) = series.find(files, today=datetime.date(2030, 2, 1))
    assert (problem.path, problem.line) == ("patches/p/v1/say-more.patch", 6)
    assert "expired on 2030-01-31" in problem.what
