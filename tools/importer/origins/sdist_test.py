# SPDX-License-Identifier: Apache-2.0
"""Read sdists and pure-Python wheels from a directory that pip uses as its index."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.origins import open_pin, resolve
from tools.importer.origins.cache import user_cache
from tools.importer.origins.origin_fixtures import Lines, make_sdist, write_project
from tools.importer.project import Project
from tools.importer.snapshot import Blob


@pytest.fixture(name="index")
def _index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_CONSTRAINT", "")
    make_sdist(tmp_path / "index", "some-lib", "1.0", {"src/some/a.py": b"a = 1\n"})
    make_sdist(tmp_path / "index", "some-lib", "1.1", {"src/some/a.py": b"a = 2\n"})
    return tmp_path / "index"


@pytest.fixture(name="project")
def _project(tmp_path: Path) -> Project:
    return write_project(
        tmp_path / "workspace",
        "some_lib",
        origins={"sdist": {"project": "some-lib"}},
        include=["some/**"],
        move={"src/": ""},
    )


def test_an_sdist_is_found_selected_and_opened_again(index: Path, project: Project) -> None:
    tree = resolve(project, Lines(), tag="v1.0")
    assert list(tree.paths()) == ["some/a.py"]
    assert tree.read("some/a.py") == Blob(b"a = 1\n")
    assert tree.pin["kind"] == "sdist"
    assert tree.pin["filename"] == "some_lib-1.0.tar.gz"
    assert tree.natives
    user_cache().file(str(tree.pin["sha256"])).unlink()  # type: ignore[union-attr]
    assert open_pin(project, Lines(), tree.pin).read("some/a.py") == Blob(b"a = 1\n")


def test_its_code_does_not_run(index: Path, project: Project, tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    make_sdist(
        index,
        "some-lib",
        "2.0",
        {"setup.py": f"open({str(trap)!r}, 'w')\n".encode(), "src/some/a.py": b""},
    )
    resolve(project, Lines(), tag="v2.0")
    assert not trap.exists()


@pytest.mark.full
def test_other_bytes_under_the_same_name(index: Path, project: Project) -> None:
    pin = dict(resolve(project, Lines(), tag="v1.0").pin)
    user_cache().file(str(pin["sha256"])).unlink()  # type: ignore[union-attr]
    make_sdist(index, "some-lib", "1.0", {"src/some/a.py": b"a = 3\n"})
    with pytest.raises(UserError, match=r"some_lib-1\.0\.tar\.gz: sha256 is .* the pin says"):
        open_pin(project, Lines(), pin)


@pytest.mark.full
def test_a_release_that_is_not_there(index: Path, project: Project) -> None:
    with pytest.raises(UserError, match=r"no v1\.2 of some_lib: .*Did you mean"):
        resolve(project, Lines(), tag="v1.2")
    with pytest.raises(UserError, match=r"key 'tags' is 'v\{version\}'. Did you mean v1\.0\?"):
        resolve(project, Lines(), tag="1.0")


@pytest.mark.full
def test_a_constraint_of_the_machine(
    index: Path, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "constraints.txt").write_text("some_lib<1.1\n")
    monkeypatch.setenv("PIP_CONSTRAINT", str(tmp_path / "constraints.txt"))
    with pytest.raises(UserError, match=r"this machine constrains it to 'some_lib<1\.1'"):
        resolve(project, Lines(), tag="v1.1")


@pytest.mark.full
def test_no_index_at_all(
    index: Path, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "empty"))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises((UserError, EnvironmentProblem), match=r"v1\.0 of some_lib"):
        resolve(project, Lines(), tag="v1.0")
