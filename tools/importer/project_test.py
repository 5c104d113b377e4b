# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tools.importer.errors import UserError
from tools.importer.project import Labels, Licence, load_project, parse_project, project_names
from tools.importer.selection import Selection

_LEAST: dict[str, object] = {"origins": {}}


def test_the_defaults_follow_the_name(tmp_path: Path) -> None:
    project = parse_project(tmp_path, "absl_py", _LEAST)
    assert project.pin == tmp_path / "third_party/absl_py/pin.json"
    assert project.series_of("v1") == tmp_path / "patches/absl_py/v1"
    assert project.metadata == tmp_path / "third_party/absl_py/METADATA"
    assert (project.builder, project.licence) == ("tree", Licence("", ("LICENSE", "NOTICE")))


def test_all_keys(tmp_path: Path) -> None:
    settings = {
        "name": "x",
        "pin": "a/pin.json",
        "series": "p/x",
        "metadata": "a/METADATA",
        "origins": {"git": {"url": "https://example.com/x"}},
        "tags": "release-{version}",
        "labels": {"release": "{version}", "branch": "{branch}-{commit}"},
        "include": ["x/**"],
        "exclude": ["x/tests/**"],
        "move": {"src/": ""},
        "licence": {"expression": "MIT", "files": ["COPYING"]},
        "builder": "tree",
    }
    project = parse_project(tmp_path, "x", settings)
    assert project.selection == Selection(("x/**",), ("x/tests/**",), {"src/": ""})
    assert project.labels == Labels("{version}", "{branch}-{commit}")
    assert project.licence == Licence("MIT", ("COPYING",))
    assert project.label_of({"tag": "release-1.2"}) == "1.2"
    pin = {"tag": None, "ref": "refs/heads/a/b", "commit": "c" * 40}
    assert project.label_of(pin) == f"a-b-{'c' * 12}"
    assert project.label_of({"tag": None, "ref": "c" * 40, "commit": "c" * 40}) == (
        f"commit-{'c' * 12}"
    )


@pytest.mark.parametrize(
    ("tags", "tag", "version"),
    [
        ("v{version}", "v1.2.3", "1.2.3"),
        ("v{version}", "v1.2rc1", "1.2rc1"),
        ("v{version}", "1.2.3", None),
        ("v{version}", "vnext", None),
        ("{version}", "2026.9.0", "2026.9.0"),
        ("release-*", "release-3_1", "3_1"),
        ("release-*", "release-next", None),
        ("x/{version}-final", "x/1.0-final", "1.0"),
    ],
)
def test_tags_and_versions(tmp_path: Path, tags: str, tag: str, version: str | None) -> None:
    project = parse_project(tmp_path, "x", {**_LEAST, "tags": tags})
    assert project.version_of(tag) == version
    if version:
        assert project.tag_of(version) == tag


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"origins": None}, "key 'origins' is missing"),
        ({"origins": []}, "key 'origins' is [], not an object"),
        ({"origins": {"git": "x"}}, "and 'git' is not an object of texts"),
        ({"name": "y"}, "key 'name' is \"y\", not 'x', which is its folder"),
        ({"pin": 3}, "key 'pin' is 3, not a text"),
        ({"series": "../p"}, "key 'series' is \"../p\", not a path below the workspace"),
        ({"tags": "v1"}, "key 'tags' is \"v1\", not a tag with one {version}"),
        ({"tags": "{version}{version}"}, "not a tag with one {version}"),
        ({"labels": {"x": "y"}}, "and 'x' is none of release, branch"),
        ({"labels": {"branch": "main"}}, "without one of {branch} {commit} in 'branch'"),
        ({"include": "x"}, "key 'include' is \"x\", not a list of globs"),
        ({"exclude": ["/x"]}, "key 'exclude' is [\"/x\"], not a list of globs of paths below"),
        ({"move": {"src": ""}}, "not an object of folders that end in /"),
        ({"licence": {"spdx": "MIT"}}, "key 'licence'"),
        ({"orgins": {}}, "no key is called 'orgins'. Use: name, pin,"),
    ],
)
def test_a_wrong_key_is_named_with_its_file(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        parse_project(tmp_path, "x", {**_LEAST, **change})
    assert "third_party/x/import.json: " in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '"x"'])
def test_a_file_that_is_no_project(tmp_path: Path, text: str) -> None:
    file = tmp_path / "third_party/x/import.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(UserError, match=r"third_party/x/import\.json: "):
        load_project(tmp_path, "x")


def test_an_unknown_project(tmp_path: Path) -> None:
    (tmp_path / "third_party/known").mkdir(parents=True)
    (tmp_path / "third_party/known/import.json").write_text(json.dumps(_LEAST))
    assert project_names(tmp_path) == ["known"]
    with pytest.raises(UserError, match=r"can be imported here: known\. To add one, run"):
        load_project(tmp_path, "x")
    with pytest.raises(UserError, match="'absl-py' cannot be the name of a project"):
        parse_project(tmp_path, "absl-py", _LEAST)
