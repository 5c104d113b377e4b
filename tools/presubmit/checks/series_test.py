# SPDX-License-Identifier: Apache-2.0
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
    (found,) = series.find(sample_tree.write(tmp_path, contents))
    assert (found.path, found.line) == ("patches/p/v1/series", 2)
    assert "say-mor.patch" in found.what
    assert "Did you mean 'say-more.patch'?" in found.next_step


def test_header_is_required(tmp_path: pathlib.Path) -> None:
    patch = _PATCH.replace("Owner: build\n", "")
    contents = {"patches/p/v1/series": "say-more.patch\n", "patches/p/v1/say-more.patch": patch}
    (found,) = series.find(sample_tree.write(tmp_path, contents))
    assert found.path == "patches/p/v1/say-more.patch"
    assert "Owner" in found.what


def test_patch_without_series(tmp_path: pathlib.Path) -> None:
    (found,) = series.find(sample_tree.write(tmp_path, {"third_party/x/fix.patch": _PATCH}))
    assert found.path == "third_party/x/fix.patch"
    assert "series" in found.what
