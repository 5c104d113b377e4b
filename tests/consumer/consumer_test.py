# SPDX-License-Identifier: Apache-2.0
"""Build a program in another workspace, with a package from that workspace's own lock file.

The tests need the network. Each workspace unpacks torch and its wheels, which takes minutes even if
all actions are cached.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.consumer.workspace import SOURCES, Workspace

_OUTPUT = "torch.Size([16, 4]) on tpu:0\n"
_LOCK = "requirements.lock.json"
_UPDATE = ("@torch_google//third_party/pypi:update", "--", "requirements.in")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("consumer")


@pytest.fixture(scope="module")
def workspace(directory: Path) -> Iterator[Workspace]:
    workspace = Workspace(directory / "first")
    yield workspace
    workspace.close()


@pytest.fixture
def lock(workspace: Workspace) -> Iterator[Path]:
    """Yield the path of the workspace's lock file, and restore the file after the test."""
    path = workspace.file(_LOCK)
    text = path.read_text()
    yield path
    path.write_text(text)


def test_no_option_is_needed(workspace: Workspace) -> None:
    options = workspace.file(".bazelrc")
    text = options.read_text()
    options.unlink()
    result = workspace.bazel("build", "--nobuild", "//...")
    options.write_text(text)
    assert result.status == 0, result.stderr


def test_a_program_runs_from_the_sources(workspace: Workspace) -> None:
    result = workspace.bazel("run", "//shapes")
    assert (result.status, result.stdout) == (0, _OUTPUT), result.stderr


def test_a_program_is_one_file(workspace: Workspace, tmp_path: Path) -> None:
    result = workspace.bazel("build", "//shapes:shapes.par")
    assert result.status == 0, result.stderr
    program = tmp_path / "moved.par"
    workspace.file("bazel-bin/shapes/shapes.par").rename(program)
    environment = {"PATH": "", "PAR_CACHE_DIR": str(tmp_path / "cache")}
    assert subprocess.check_output([program], env=environment, text=True) == _OUTPUT


def test_a_test_runs(workspace: Workspace) -> None:
    result = workspace.bazel("test", "//shapes:patches_test")
    assert result.status == 0, result.stdout + result.stderr


def test_two_pins_are_refused(workspace: Workspace, lock: Path) -> None:
    own = json.loads((SOURCES / "third_party/pypi/lock.json").read_text())["packages"]["numpy"]
    workspace.edit_lock(numpy={**own, "version": "1.26.4"})
    result = workspace.bazel("build", "--nobuild", "//shapes")
    assert result.status != 0
    assert (
        f"numpy is {own['version']} in @torch_google//third_party/pypi:lock.json, but 1.26.4 in"
        f" //:{_LOCK}. A build has one version of a package. Run `bazel run {' '.join(_UPDATE)}`"
    ) in result.stderr


def test_requirements_that_changed_are_noticed(workspace: Workspace) -> None:
    path = workspace.file("requirements.in")
    text = path.read_text()
    path.write_text(f"{text}more-itertools\n")
    result = workspace.bazel("build", "--nobuild", "//shapes")
    path.write_text(text)
    assert result.status != 0
    assert (
        f"//:requirements.in: 'more-itertools' changed after //:{_LOCK} was made" in result.stderr
    )


def test_the_update_mends_a_lock(workspace: Workspace, lock: Path) -> None:
    before = lock.read_text()
    row = json.loads(before)["packages"]["einops"]
    workspace.edit_lock(numpy={**row, "distribution": "numpy"})
    result = workspace.bazel("run", *_UPDATE)
    assert result.status == 0, result.stderr
    assert lock.read_text() == before


_IMPORTED = """
imported = use_extension("@torch_google//third_party/imported:imported.bzl", "imported")
imported.project(name = "einops")
use_repo(imported, "einops")
pypi.replace(wheel = "einops", by = "@einops")
"""
_PROGRAM = """
load("@torch_google//tools/par:par.bzl", "par_binary")
par_binary(name = "patched", srcs = ["patched.py"], main = "patched.py", deps = ["@pypi//einops"])
"""


def test_an_imported_project_takes_the_place_of_a_locked_wheel(directory: Path) -> None:
    """A program that depends on @pypi//einops gets the imported and patched project instead."""
    workspace = Workspace(directory / "importing")
    try:
        version = json.loads(workspace.file(_LOCK).read_text())["packages"]["einops"]["version"]
        workspace.import_py("init", "einops", "--origin", f"pypi:einops=={version}")
        header = ("--owner", "us", "--reason", "build", "--upstream", "None", "--test", "t.py::t")
        file = "einops/__init__.py"
        workspace.import_py("new", "Say ours", file, *header, "--extension-point", "None")
        with workspace.file(f".import/edit/tree/{file}").open("a") as text:
            text.write("OURS = True\n")
        workspace.import_py("refresh")
        assert "verified: " in workspace.import_py("verify")
        with workspace.file("MODULE.bazel").open("a") as module:
            module.write(_IMPORTED)
        workspace.file("patched").mkdir()
        workspace.file("patched/BUILD").write_text(_PROGRAM)
        workspace.file("patched/patched.py").write_text(
            "import importlib.metadata\nimport einops\n"
            "print(einops.OURS, importlib.metadata.version('einops'))\n"
        )
        result = workspace.bazel("run", "//patched")
        assert (result.status, result.stdout) == (0, f"True {version}\n"), result.stderr
    finally:
        workspace.close()


def test_a_second_workspace_compiles_nothing(workspace: Workspace, directory: Path) -> None:
    assert workspace.bazel("build", "//shapes:shapes.par").status == 0
    second = Workspace(directory / "another")
    result = second.bazel("build", "//shapes:shapes.par")
    counts = second.runners()
    second.close()
    assert result.status == 0, result.stderr
    hits = counts.pop("disk cache hit")
    assert hits > 200
    # Linking a PAR is never cached. There are two PARs: the program, and the tool from tools/wheel.
    assert sum(counts.values()) == 2, counts
