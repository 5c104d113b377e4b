# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from tools.importer.errors import UserError
from tools.importer.origins import open_pin, resolve
from tools.importer.origins.cache import user_cache
from tools.importer.origins.origin_fixtures import Lines, make_sdist, write_project
from tools.importer.snapshot import Blob

_FILES = {"some/a.py": b"a = 1\n"}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_an_archive_at_an_address(tmp_path: Path) -> None:
    make_sdist(tmp_path / "server", "lib", "1.0", _FILES)
    url = f"file://{tmp_path}/server/lib-{{version}}.tar.gz"
    project = write_project(tmp_path / "workspace", "lib", origins={"archive": {"url": url}})
    tree = resolve(project, Lines(), tag="v1.0")
    assert tree.read("some/a.py") == Blob(b"a = 1\n")
    assert (tree.pin["kind"], tree.natives) == ("archive", True)
    user_cache().file(str(tree.pin["sha256"])).unlink()  # type: ignore[union-attr]
    assert open_pin(project, Lines(), tree.pin).read("some/a.py") == Blob(b"a = 1\n")
    user_cache().file(str(tree.pin["sha256"])).unlink()  # type: ignore[union-attr]
    make_sdist(tmp_path / "server", "lib", "1.0", {"some/a.py": b"other\n"})
    with pytest.raises(UserError, match="the pin says"):
        open_pin(project, Lines(), tree.pin)


@pytest.mark.parametrize("kind", ["archive", "directory"])
def test_a_path_with_the_release_in_it(tmp_path: Path, kind: str) -> None:
    for version in ("1.0", "1.1"):
        make_sdist(tmp_path / "mirror", "lib", version, _FILES)
        folder = tmp_path / "mirror" / f"lib-{version}"
        (folder / "some").mkdir(parents=True)
        (folder / "some/a.py").write_bytes(b"a = 1\n")
    path = str(tmp_path / "mirror" / "lib-{version}") + (".tar.gz" if kind == "archive" else "")
    project = write_project(tmp_path / "workspace", "lib", origins={kind: {"path": path}})
    tree = resolve(project, Lines(), tag="v1.1")
    assert tree.read("some/a.py") == Blob(b"a = 1\n")
    assert tree.pin["kind"] == ("tarball" if kind == "archive" else "tree")
    with pytest.raises(UserError, match=r"no v1\.2 of lib: .*Did you mean v1\.[01]"):
        resolve(project, Lines(), tag="v1.2")


@pytest.mark.parametrize(
    "path", ["{version}/lib.tar.gz", "{tag}/lib-{version}.tar.gz", "{version}/lib-{version}.tar.gz"]
)
def test_a_release_in_the_name_of_a_directory(tmp_path: Path, path: str) -> None:
    for version in ("1.0", "1.1"):
        file = tmp_path / path.replace("{tag}", f"v{version}").replace("{version}", version)
        archive = make_sdist(tmp_path / "made", "lib", version, _FILES)
        file.parent.mkdir(parents=True)
        archive.rename(file)
    (tmp_path / "1.2").mkdir()
    (tmp_path / "v1.2").mkdir()
    (tmp_path / "v1.2/lib-9.9.tar.gz").touch()
    origins = {"archive": {"path": f"{tmp_path}/{path}"}}
    project = write_project(tmp_path / "workspace", "lib", origins=origins)
    assert resolve(project, Lines(), tag="v1.1").read("some/a.py") == Blob(b"a = 1\n")
    with pytest.raises(UserError, match=r"no v1\.2 of lib: .*Did you mean v1\.[01]"):
        resolve(project, Lines(), tag="v1.2")


def test_a_setting_that_is_missing(tmp_path: Path) -> None:
    project = write_project(tmp_path / "workspace", "lib", origins={"archive": {}})
    with pytest.raises(UserError, match=r"lib/import\.json: key 'origins': 'archive' lacks 'url'"):
        resolve(project, Lines(), tag="v1.0")
