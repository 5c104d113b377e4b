# SPDX-License-Identifier: Apache-2.0
"""Test the steps of building a prefix that need no Debian packages: final check and relinking."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.bazel import debian_prefix


def _prefix(tmp_path: Path, *, label: str) -> Path:
    base = tmp_path / "prefix/usr/share/bazel"
    base.mkdir(parents=True)
    (base / "build-label.txt").write_text(f"{label}\n")
    return tmp_path / "prefix"


def test_another_version_is_refused(tmp_path: Path) -> None:
    prefix = _prefix(tmp_path, label="7.7.10")
    with pytest.raises(debian_prefix.PrefixError, match=r"is Bazel 7\.7\.10, .* says 7\.7\.1$"):
        debian_prefix.check(prefix, version="7.7.1")


def test_a_library_of_the_machine_is_refused(tmp_path: Path) -> None:
    prefix = _prefix(tmp_path, label="7.7.1")
    programs = ["usr/bin/bazel", "usr/libexec/x86_64-linux-gnu/bazel/daemonize"]
    loader = prefix / "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
    for file in [*(prefix / program for program in programs), loader]:
        file.parent.mkdir(parents=True)
        file.touch()
    inside = f"libz.so.1 => {prefix}/usr/lib/libz.so.1 (0x1)"
    loader.write_text(f"#!/bin/sh\necho 'linux-vdso.so.1 (0x2)'\necho '{inside}'\n")
    loader.chmod(0o755)
    debian_prefix.check(prefix, version="7.7.1")
    for path in ("/lib/libssl.so.3 (0x3)", "not found"):
        loader.write_text(f"#!/bin/sh\necho 'libssl.so.3 => {path}'\n")
        with pytest.raises(debian_prefix.PrefixError, match=r"bazel: libssl\.so\.3 is .* outside"):
            debian_prefix.check(prefix, version="7.7.1")


def test_links_between_packages_become_relative(tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    for directory in ("etc/java", "usr/lib/java", "usr/share/java"):
        (staging / directory).mkdir(parents=True)
    (staging / "etc/java/policy").write_text("p")
    (staging / "usr/lib/java/conf").symlink_to("/etc/java")
    (staging / "usr/share/java/a.jar").symlink_to("a-1.jar")
    (staging / "usr/lib/java/outside").symlink_to("/no/such/package")
    debian_prefix.relink(staging)
    assert os.readlink(staging / "usr/lib/java/conf") == "../../../etc/java"
    assert os.readlink(staging / "usr/share/java/a.jar") == "a-1.jar"
    assert os.readlink(staging / "usr/lib/java/outside") == "/no/such/package"
    staging.rename(tmp_path / "moved")
    assert (tmp_path / "moved/usr/lib/java/conf/policy").read_text() == "p"
