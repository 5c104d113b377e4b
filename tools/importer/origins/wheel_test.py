# SPDX-License-Identifier: Apache-2.0
"""Download wheels from local directories with the host's pip."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.origins import at_hand, open_pin, resolve
from tools.importer.origins.origin_fixtures import (
    COMMIT,
    Lines,
    commit_files,
    make_project,
    make_wheel,
    wheel_settings,
)
from tools.importer.project import Project
from tools.importer.snapshot import Blob

_MAC = "cp311-cp311-macosx_14_0_arm64"


def _has_pip() -> bool:
    python = shutil.which("python3")
    command = [python or "false", "-m", "pip", "--version"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not _has_pip(), reason="the python3 on PATH has no pip")


@pytest.fixture(name="project")
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Create a project, and configure pip to use only the directory `wheels`, without an index."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TORCH_GOOGLE_TORCH_INDEX", raising=False)
    (tmp_path / "wheels").mkdir()
    return make_project(tmp_path / "workspace", wheel=wheel_settings())


def test_the_builds_wheel(project: Project, tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "2.14.1+cpu")
    lines = Lines()
    tree = resolve(project, lines, tag="v2.14.1")
    assert tree.natives
    assert (tree.label, tree.commit) == ("v2.14.1", COMMIT)
    assert sorted(tree.paths()) == ["torch/__init__.py", "torch/data.json"]
    assert tree.read("torch/__init__.py") == Blob(b"x = 1\n")
    assert tree.read("torch/version.py") is None
    assert tree.carries("torch/gone.py")
    assert tree.carries("torch/gone.json")
    assert not tree.carries("test/test_torch.py")
    assert not tree.carries("torch/version.py")
    assert tree.pin["kind"] == "wheel"
    (line,) = lines.said
    assert line.startswith("v2.14.1 from the build's wheel: torch-2.14.1+cpu-cp311-cp311-manylinux")


def test_a_pin_is_read_from_the_cache_and_then_from_pip(project: Project, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "wheels", "2.14.1+cpu")
    pin = resolve(project, Lines(), tag="v2.14.1").pin
    aside = wheel.rename(tmp_path / wheel.name)
    again = open_pin(project, Lines(), pin)
    assert again.pin == pin
    assert again.natives
    assert set(again.paths()) == {"torch/__init__.py", "torch/data.json"}

    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(EnvironmentProblem, match=r"^the pinned 2\.14\.1\+cpu can no longer be had"):
        open_pin(project, Lines(), pin)
    aside.rename(wheel)
    assert open_pin(project, Lines(), pin).read("torch/__init__.py") == Blob(b"x = 1\n")


def test_other_bytes_under_the_pinned_name(project: Project, tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "2.14.1+cpu")
    pin = resolve(project, Lines(), tag="v2.14.1").pin
    shutil.rmtree(tmp_path / "cache")
    make_wheel(tmp_path / "wheels", "2.14.1+cpu", files={"torch/evil.py": b""})
    with pytest.raises(
        UserError, match=rf"sha256 is [0-9a-f]{{64}}, the pin says {pin['sha256']}"
    ) as e:
        open_pin(project, Lines(), pin)
    assert "\n" not in str(e.value)
    assert str(e.value).count(str(pin["sha256"])) == 1


def test_another_platforms_wheel_serves_as_sources(project: Project, tmp_path: Path) -> None:
    # The default Linux wheel includes CUDA and is large, so it is tried last.
    make_wheel(tmp_path / "wheels", "2.14.1", cuda="'12.6'")
    make_wheel(tmp_path / "wheels", "2.14.1", _MAC)
    lines = Lines()
    tree = resolve(project, lines, tag="v2.14.1")
    assert not tree.natives
    assert tree.pin["filename"] == f"torch-2.14.1-{_MAC}.whl"
    assert lines.said[0].startswith("not from the build's wheel: no torch==2.14.1+cpu at")
    assert lines.said[1].endswith("sources only, so the build's pin stays where it is")
    shutil.rmtree(tmp_path / "cache")
    assert open_pin(project, Lines(), tree.pin).pin == tree.pin


def _constrain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Configure the host's pip with a constraint on a project's version."""
    (tmp_path / "constraints.txt").write_text(f"{line}\n")
    (tmp_path / "pip.conf").write_text(f"[global]\nconstraint = {tmp_path}/constraints.txt\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))


@pytest.mark.full
def test_a_constraint_of_the_machine_is_named(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(tmp_path / "wheels", "2.15.0", _MAC)
    _constrain(tmp_path, monkeypatch, "torch<=2.14.1")
    with pytest.raises(UserError) as e:
        resolve(project, Lines(), tag="v2.15.0")
    assert str(e.value) == (
        "v2.15.0 of torch: pip may not fetch torch==2.15.0: this machine constrains it to"
        " 'torch<=2.14.1' (PIP_CONSTRAINT, or a file that `pip config list` names)."
        " Import a release that it allows, or set PIP_CONSTRAINT to nothing for this command"
    )


def test_an_empty_pip_constraint_lifts_the_machines(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(tmp_path / "wheels", "2.15.0", _MAC)
    _constrain(tmp_path, monkeypatch, "torch<=2.14.1")
    monkeypatch.setenv("PIP_CONSTRAINT", "")
    pin = resolve(project, Lines(), tag="v2.15.0").pin
    shutil.rmtree(tmp_path / "cache")
    # pip downloads a pinned wheel by its hash, ignoring the constraint.
    assert open_pin(project, Lines(), pin).pin == pin


def test_a_constraint_that_allows_the_release_changes_nothing(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(tmp_path / "wheels", "2.14.1", _MAC)
    _constrain(tmp_path, monkeypatch, "torch<=2.14.1")
    pin = resolve(project, Lines(), tag="v2.14.1").pin
    shutil.rmtree(tmp_path / "cache")
    assert open_pin(project, Lines(), pin).pin == pin


def test_a_constraint_that_allows_a_release_is_not_blamed_if_no_index_has_it(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(tmp_path / "wheels", "2.13.0", _MAC)
    _constrain(tmp_path, monkeypatch, "torch<=2.14.1")
    with pytest.raises(UserError) as e:
        resolve(project, Lines(), tag="v2.14.1")
    assert "constrains" not in str(e.value)
    assert "no torch==2.14.1+cpu at " in str(e.value)


def test_another_origin_serves_what_pip_may_not_fetch(
    tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = tmp_path / "upstream"
    commit_files(upstream, {"torch/__init__.py": b"x = 1\n"}, "v2.15.0")
    both = make_project(tmp_path / "both", wheel=wheel_settings(), git={"url": str(upstream)})
    make_wheel(tmp_path / "wheels", "2.15.0+cpu")
    _constrain(tmp_path, monkeypatch, "torch<=2.14.1")
    lines = Lines()
    assert resolve(both, lines, tag="v2.15.0").pin["kind"] == "git"
    assert lines.said[0].startswith(
        "not from the build's wheel: pip may not fetch torch==2.15.0+cpu"
    )


@pytest.mark.full
def test_a_build_with_cuda_gives_sources_only(project: Project, tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "2.14.1", cuda="'12.6'")
    tree = resolve(project, Lines(), tag="v2.14.1", origin="wheel")
    assert not tree.natives
    assert "manylinux" in str(tree.pin["filename"])


def test_a_build_with_cuda_under_the_cpu_name_has_no_natives(
    project: Project, tmp_path: Path
) -> None:
    make_wheel(tmp_path / "wheels", "2.14.1+cpu", cuda="'12.6'")
    assert not resolve(project, Lines(), tag="v2.14.1").natives


def test_a_wheel_is_fetched_once(project: Project, tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "2.14.1+cpu")
    resolve(project, Lines(), tag="v2.14.1")
    lines = Lines()
    resolve(project, lines, tag="v2.14.1")
    assert lines.steps == []


def test_a_wheel_that_says_another_version(project: Project, tmp_path: Path) -> None:
    other = {"torch/version.py": b"__version__ = '2.13.0+cpu'\n"}
    make_wheel(tmp_path / "wheels", "2.14.1+cpu", files=other)
    with pytest.raises(UserError, match=r"torch/version.py says 2\.13\.0\+cpu. Distrust the index"):
        resolve(project, Lines(), tag="v2.14.1")


@pytest.mark.parametrize("name", ["torch/../../x.py", "torch//x.py"])
def test_a_hostile_wheel(project: Project, tmp_path: Path, name: str) -> None:
    make_wheel(tmp_path / "wheels", "2.14.1+cpu", files={name: b""})
    with pytest.raises(UserError, match=r"^torch-2\.14\.1\+cpu-.*\.whl: the path .* distrust it"):
        resolve(project, Lines(), tag="v2.14.1")


def test_an_unknown_tag_has_near_misses(project: Project, tmp_path: Path) -> None:
    for version in ("2.14.0+cpu", "2.14.1+cpu", "1.0"):
        make_wheel(tmp_path / "wheels", version)
    lines = Lines()
    with pytest.raises(UserError, match=r"^no v2\.14\.2 of torch: .*Did you mean v2\.14\.[01], v2"):
        resolve(project, lines, tag="v2.14.2")
    assert lines.steps == ["Fetching torch==2.14.2+cpu with pip"]


def test_a_tag_of_no_release(project: Project) -> None:
    with pytest.raises(UserError, match="nightly is not the tag of a release"):
        resolve(project, Lines(), tag="nightly", origin="wheel")


@pytest.mark.full
def test_no_network(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(EnvironmentProblem) as caught:
        resolve(project, Lines(), tag="v2.14.1")
    message = str(caught.value)
    assert "v2.14.1 of torch is out of reach: the build's wheel: pip exited 1" in message
    assert "after failed connections ([Errno 111] Connection refused" in message
    assert "\n" not in message


def test_the_extra_index_of_the_builds_pin(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(tmp_path / "index" / "torch", "2.14.1+cpu")
    (wheel.parent / "index.html").write_text(f'<a href="{wheel.as_uri()}">{wheel.name}</a>')
    project.pin.write_text('{"wheel": {"extra_index": "http://127.0.0.1:9/simple"}}')
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "empty").as_uri())
    monkeypatch.setenv("TORCH_GOOGLE_TORCH_INDEX", (tmp_path / "index").as_uri())
    assert resolve(project, Lines(), tag="v2.14.1").natives


def test_a_damaged_file_of_the_cache(project: Project, tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "2.14.1+cpu")
    pin = resolve(project, Lines(), tag="v2.14.1").pin
    cached = tmp_path / "cache" / "torch_google" / "importer" / "files" / str(pin["sha256"])
    cached.chmod(0o644)
    cached.write_bytes(b"")
    with pytest.raises(EnvironmentProblem, match=r"damaged: .*Delete it; it is fetched again"):
        open_pin(project, Lines(), pin)


def test_an_old_tree_is_at_hand_only_while_its_wheel_is_kept(
    project: Project, tmp_path: Path
) -> None:
    wheel = make_wheel(tmp_path / "wheels", "2.14.1+cpu")
    pin = dict(resolve(project, Lines(), tag="v2.14.1").pin)
    wheel.unlink()
    snapshot = at_hand(project, Lines(), pin)
    assert snapshot is not None
    assert snapshot.read("torch/__init__.py") == Blob(b"x = 1\n")
    shutil.rmtree(tmp_path / "cache")
    assert at_hand(project, Lines(), pin) is None
    assert at_hand(project, Lines(), {"kind": "git", "url": "x", "commit": "y"}) is None
