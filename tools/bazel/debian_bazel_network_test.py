# SPDX-License-Identifier: Apache-2.0
"""Install Debian's Bazel from the host's Debian mirror and build with it.

This test is not part of the test suite, which runs without a network. It needs a Debian host,
downloads 100 MB and takes about a minute. Run it if tools/bazel or Debian's packages change.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tools.bazel import debian_bazel, trust_store
from tools.bazel.launcher import Launcher, write_atomically

_ROOT = Path(__file__).absolute().parents[2]
_VERSION = (_ROOT / ".bazelversion").read_text().strip()

_BUILD = """\
load("@bazel_skylib//rules:write_file.bzl", "write_file")
load("@rules_cc//cc:defs.bzl", "cc_binary")
load("@rules_python//python:defs.bzl", "py_library")
load("@rules_shell//shell:sh_test.bzl", "sh_test")

cc_binary(name = "program", srcs = ["program.cc"])

py_library(name = "library", srcs = ["library.py"])

write_file(name = "text", out = "text.txt", content = ["text"])

sh_test(name = "runs", srcs = ["runs.sh"], args = ["$(rootpath :program)"], data = [":program"])
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    files = {name: (_ROOT / name).read_text() for name in ("MODULE.bazel", ".bazelrc")}
    files["BUILD"] = _BUILD
    files["library.py"] = ""
    files["program.cc"] = "static_assert(__cplusplus >= 201703L);\nint main() { return 0; }\n"
    for name, text in files.items():
        write_atomically(root / name, text)
    write_atomically(root / "runs.sh", '#!/bin/sh\nexec "./$1"\n', mode=0o755)
    return root


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    cache = tmp_path_factory.mktemp("cache")
    with (cache / "lock").open("a") as lock:
        return debian_bazel.provide(version=_VERSION, cache=cache, lock=lock.fileno())


def test_it_builds_and_tests_with_the_modules_of_the_workspace(
    tmp_path: Path, workspace: Path, launcher: Launcher
) -> None:
    output = tmp_path / "output"
    start: list[str | Path] = [
        launcher.program,
        *launcher.startup_options,
        f"--output_user_root={output}",
    ]
    environment = {**os.environ, "HOME": str(tmp_path)}
    try:
        answer = subprocess.run(
            [*start, "test", "//..."],
            cwd=workspace,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        label = subprocess.check_output(
            [*start, "info", "release"], cwd=workspace, env=environment, text=True
        )
        assert label == f"release {_VERSION}\n"
    finally:
        subprocess.run([*start, "shutdown"], cwd=workspace, env=environment, check=False)
        # Bazel leaves its outputs read-only, so make them writable before they are deleted.
        subprocess.run(["chmod", "-R", "u+w", output], check=False)


def test_java_trusts_what_the_machine_trusts(launcher: Launcher) -> None:
    java = launcher.program.parents[1] / "lib/jvm/java-21-openjdk-amd64"
    keytool: list[str | Path] = [
        java / "bin/java",
        "-m",
        "java.base/sun.security.tools.keytool.Main",
    ]
    store: list[str | Path] = ["-keystore", java / "lib/security/cacerts", "-storepass", "changeit"]
    answer = subprocess.check_output([*keytool, "-list", *store], text=True)
    assert answer.count("trustedCertEntry") == len(trust_store.certificates()) > 0
