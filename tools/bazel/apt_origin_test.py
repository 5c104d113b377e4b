# SPDX-License-Identifier: Apache-2.0
"""Test the parsing of apt sources in both formats, and check generated sources with a real apt."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tools.bazel import apt_origin
from tools.bazel.apt_origin import Origin

_DEB822 = """\
# A comment before the paragraph.
Types: deb deb-src
URIs: http://one.example/debian http://two.example/debian/
Suites: bookworm bookworm-updates
# A comment inside.
Components: main contrib
Signed-By: /usr/share/keyrings/archive.gpg

Types: deb
URIs: http://security.example/debian-security
Suites: bookworm-security
Components: main

Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
Enabled: no

Types: deb-src
URIs: http://source.example/debian
Suites: bookworm
Components: main
"""

_ONE_LINE = """\
# deb http://commented.example/debian bookworm main
deb http://plain.example/debian/ bookworm main
deb [arch=amd64 signed-by=/k.gpg trusted=yes] http://options.example/debian sid main contrib
deb http://tools.example/apt tools-bookworm main
deb http://free.example/debian bookworm non-free
deb-src http://source.example/debian bookworm main
"""


def _etc(tmp_path: Path, *, one_line: str = "", deb822: str = "") -> Path:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list").write_text(one_line)
    (tmp_path / "sources.list.d/debian.sources").write_text(deb822)
    (tmp_path / "sources.list.d/debian.sources.save").write_text(
        "Types: deb\nURIs: http://old.example\n"
    )
    return tmp_path


def test_deb822(tmp_path: Path) -> None:
    origins = apt_origin.origins(codename="bookworm", etc=_etc(tmp_path, deb822=_DEB822))
    key = "/usr/share/keyrings/archive.gpg"
    assert origins == [
        Origin("http://one.example/debian", key),
        Origin("http://two.example/debian", key),
    ]


def test_one_line(tmp_path: Path) -> None:
    origins = apt_origin.origins(codename="bookworm", etc=_etc(tmp_path, one_line=_ONE_LINE))
    assert origins == [
        Origin("http://plain.example/debian"),
        Origin("http://options.example/debian", "/k.gpg", "yes"),
    ]


def test_no_sources(tmp_path: Path) -> None:
    assert apt_origin.origins(codename="bookworm", etc=tmp_path) == []


def test_unknown_codename_still_finds_moving_suites(tmp_path: Path) -> None:
    origins = apt_origin.origins(codename="", etc=_etc(tmp_path, one_line=_ONE_LINE))
    assert [origin.uri for origin in origins] == ["http://options.example/debian"]


def test_inline_key_survives(tmp_path: Path) -> None:
    key = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n bWRtZQ==\n -----END PGP PUBLIC KEY BLOCK-----"
    fields = "Types: deb\nURIs: http://k.example/debian\nSuites: sid\nComponents: main"
    text = f"{fields}\nSigned-By:\n {key}\n"
    (origin,) = apt_origin.origins(codename="", etc=_etc(tmp_path, deb822=text))
    assert f"Signed-By: \n {key}\n" in apt_origin.stanza(origin, suite="testing")


def test_sources_have_an_index_of_their_own() -> None:
    text = apt_origin.stanza(Origin("http://k.example/debian"), suite="testing", sources=True)
    assert "Types: deb-src\n" in text
    assert "Targets: Sources\n" in text


def test_codename(tmp_path: Path) -> None:
    path = tmp_path / "os-release"
    assert apt_origin.codename(path) == ""
    path.write_text('ID=debian\nVERSION_CODENAME="bookworm"\n')
    assert apt_origin.codename(path) == "bookworm"
    path.write_text("ID=other\n")
    assert apt_origin.codename(path) == ""


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="no apt on this machine")
def test_apt_reads_the_stanza(tmp_path: Path) -> None:
    origin = Origin("http://mirror.example/debian", "/usr/share/keyrings/archive.gpg")
    sources = tmp_path / "suite.sources"
    sources.write_text(apt_origin.stanza(origin, suite="testing"))
    settings = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State": tmp_path,
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    answer = subprocess.run(
        ["apt-get", *options, "update", "--print-uris"], capture_output=True, text=True, check=True
    )
    assert "'http://mirror.example/debian/dists/testing/InRelease'" in answer.stdout
