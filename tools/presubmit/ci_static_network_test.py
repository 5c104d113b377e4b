# SPDX-License-Identifier: Apache-2.0
"""Run `.ci/static` with a real Bazel, in toy workspaces whose libtorch is a single small file.

This test is not part of the test suite, because it may need the network: it starts Bazel in three
new folders, and official Bazel releases download their modules each time. It takes half a minute.
Run it after changing `.ci/static` or updating Bazel.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
from collections.abc import Iterator

import pytest

_ROOT = pathlib.Path(__file__).absolute().parents[2]

_MODULE = """\
module(name = "toy")
{modules}
local_repository = use_repo_rule("@bazel_tools//tools/build_defs/repo:local.bzl", "local_repository")
local_repository(name = "torch_source", path = "source")
"""

_SOURCE = """\
package(default_visibility = ["//visibility:public"])
genrule(name = "object", outs = ["object.o"], cmd = "echo compiled > $@")
genrule(name = "c10", outs = ["c10.a"], cmd = "echo small > $@")
"""

_EXTENSIONS = """\
package(default_visibility = ["//visibility:public"])
genrule(
    name = "extensions",
    srcs = ["@torch_source//:object"],
    outs = ["extensions.a"],
    cmd = "cat $< > $@",
)
"""

_TEST = """\
sh_test(name = "{name}", srcs = ["{name}.sh"], data = ["{needs}"])
"""

_RC = """\
startup --output_user_root={output}
build:static --define=static=1
try-import %workspace%/.bazelrc.user
"""

_OBJECTS = "//torch_google/tpu/csrc:extensions"
_IN_STATIC_PROGRAMS = {
    "tests/static": "static",
    "tests/upstream": "smoke",
    "third_party/torch/source/tests": "tests",
}


class Clone:
    """A toy workspace with its own output base. All clones share the disk cache `cache`."""

    def __init__(self, root: pathlib.Path, cache: pathlib.Path) -> None:
        self.root = root
        self._output = root.with_name(f"{root.name}.output")
        # Even Debian's Bazel, which ships these modules, requires them to be declared.
        lines = (_ROOT / "MODULE.bazel").read_text().splitlines()
        modules = "\n".join(line for line in lines if line.startswith("bazel_dep("))
        for path, text in {
            "MODULE.bazel": _MODULE.format(modules=modules),
            ".bazelrc": _RC.format(output=self._output),
            ".bazelrc.user": f"common --disk_cache={cache}\n",
            "source/MODULE.bazel": "",
            "source/BUILD": _SOURCE,
            "torch_google/tpu/csrc/BUILD": _EXTENSIONS,
            "third_party/clang/BUILD": _TEST.format(name="programs", needs="@torch_source//:c10"),
            "third_party/clang/programs.sh": "#!/bin/sh\n",
            **{
                f"{package}/{file}": text
                for package, name in _IN_STATIC_PROGRAMS.items()
                for file, text in {
                    "BUILD": _TEST.format(name=name, needs=_OBJECTS),
                    f"{name}.sh": "#!/bin/sh\n",
                }.items()
            },
        }.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755)
        (root / ".ci").mkdir()
        for path in (".ci/static", "bazelw", ".bazelversion"):
            shutil.copy(_ROOT / path, root / path)
        (root / "tools").mkdir()
        (root / "tools/bazel").symlink_to((_ROOT / "bazelw").resolve().parent / "tools/bazel")

    def run(self, *command: str) -> str:
        """Run a command, check that it succeeds, and return its output."""
        done = subprocess.run(
            [self.root / command[0], *command[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.root,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def static(self) -> tuple[str, list[str]]:
        """Run `.ci/static`. Return its summary line and the tests that it ran."""
        lines = self.run(".ci/static", "--color=no", "--curses=no").splitlines()
        (line,) = (line for line in lines if line.startswith("static: "))
        return line, [line.split()[0] for line in lines if " PASSED in " in line]

    def has_output(self, name: str) -> bool:
        """Return whether this workspace has the build output `name` from an external repository."""
        return any(self._output.glob(f"*/execroot/*/bazel-out/*/bin/external/*/{name}"))

    def close(self) -> None:
        subprocess.run([self.root / "bazelw", "shutdown"], cwd=self.root, check=False)
        # Bazel makes its outputs read-only, so pytest could not delete them.
        subprocess.run(["chmod", "-R", "u+w", self._output], check=False)


@pytest.fixture
def clones(tmp_path: pathlib.Path) -> Iterator[list[Clone]]:
    workspaces = [
        Clone(tmp_path / name, tmp_path / "cache") for name in ("empty", "full", "thinned")
    ]
    yield workspaces
    for clone in workspaces:
        clone.close()


def test_the_caches_decide(clones: list[Clone], tmp_path: pathlib.Path) -> None:
    empty, full, thinned = clones
    line, tests = empty.static()
    assert line.startswith("static: not every object of torch is in a cache")
    assert tests == ["//third_party/clang:programs"]
    assert empty.has_output("c10.a")
    assert not empty.has_output("object.o")

    empty.run("bazelw", "build", "--config=static", _OBJECTS)
    line, tests = full.static()
    assert line.startswith("static: every object of torch is in a cache")
    assert sorted(tests) == [f"//{package}:{name}" for package, name in _IN_STATIC_PROGRAMS.items()]

    # Simulate a cache eviction: action results are still cached, but the output files are gone.
    shutil.rmtree(tmp_path / "cache/cas")
    line, tests = thinned.static()
    assert line.startswith("static: not every object of torch is in a cache")
    assert tests == ["//third_party/clang:programs"]
    assert not thinned.has_output("object.o")
