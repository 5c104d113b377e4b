# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from tools.importer.beginning import FirstOrigin, parse_origin
from tools.importer.errors import UserError
from tools.importer.origins.origin_fixtures import commit_files, make_sdist


@pytest.mark.parametrize(
    ("text", "tag", "kind", "settings", "expected"),
    [
        ("pypi:absl-py==1.4.0", None, "sdist", {"project": "absl-py"}, ("v1.4.0", "v{version}")),
        ("wheel:x==2", "x-2", "wheel", {"project": "x"}, ("x-2", "x-{version}")),
        ("debian:foo==1.2", "1.2", "debian", {"package": "foo"}, ("1.2", "{version}")),
        ("https://h/x.git", "r/1", "git", {"url": "https://h/x.git"}, ("r/1", "r/{version}")),
        ("git+ssh://h/x", "v1", "git", {"url": "ssh://h/x"}, ("v1", "v{version}")),
    ],
)
def test_named_origins(
    tmp_path: Path,
    text: str,
    tag: str,
    kind: str,
    settings: dict[str, str],
    expected: tuple[str, str],
) -> None:
    first = parse_origin(text, tag, None, tmp_path)
    assert (first.kind, first.settings, (first.tag, first.tags)) == (kind, settings, expected)


def test_paths(tmp_path: Path) -> None:
    make_sdist(tmp_path, "lib", "1.0", {})
    first = parse_origin("lib-1.0.tar.gz", "v1.0", None, tmp_path)
    assert first.origins == {"archive": {"path": f"{tmp_path}/lib-{{version}}.tar.gz"}}
    (tmp_path / "lib-v1.0").mkdir()
    assert parse_origin("lib-v1.0", "v1.0", None, tmp_path).settings == {
        "path": f"{tmp_path}/lib-{{tag}}"
    }
    (tmp_path / "lib").mkdir()
    first = parse_origin("lib", "v1.0", None, tmp_path)
    assert (first.origins, first.origin) == ({}, str(tmp_path / "lib"))
    commit_files(tmp_path / "repository", {"a": b""}, "v1.0")
    assert parse_origin("repository", "v1.0", None, tmp_path).kind == "git"


@pytest.mark.parametrize(
    ("text", "tag", "message"),
    [
        ("pypi:x", None, "names no release. Write pypi:x==VERSION"),
        ("https://h/x.git", None, "give its release with --tag"),
        ("nowhere", "v1", "no such path. Origins are pypi:NAME==VERSION"),
        ("https://h/x.git", "main", "no version in it. Give the pattern: --tags"),
    ],
)
def test_what_is_no_origin(tmp_path: Path, text: str, tag: str | None, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        parse_origin(text, tag, None, tmp_path)
    assert "\n" not in str(caught.value)


def test_its_settings_may_be_left_out() -> None:
    assert FirstOrigin("archive", {}, "v1").origins == {}
