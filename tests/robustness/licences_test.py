# SPDX-License-Identifier: Apache-2.0
"""A PAR contains the licence texts of every component listed in its bill of materials."""

from __future__ import annotations

import json
import re
import zipfile

import pytest

from tests.robustness import subject

_LICENCE_FILE = re.compile(r"\.par/licences/([^/]+)/[^/]+")
_TEXT = re.compile(r"(.*)\.dist-info/(?:licenses/.*)?(?:LICEN[CS]E|COPYING|NOTICE)[^/]*", re.I)

# Components in the bill of materials that the default build does not link, each with the reason.
_NOT_LINKED = {
    "buildifier": "a tool of the presubmit",
    "clang": "the compiler",
    "cuda": "linked into extensions with CUDA kernels, which this program lacks",
    "f2c": "a tool of the static build",
    "make": "a tool of the build",
    **dict.fromkeys(
        [
            *("abseil", "cpp_httplib", "cpuinfo", "flatbuffers", "fmt", "gloo", "ideep"),
            *("lapack", "nlohmann_json", "onednn", "openblas", "pocketfft", "sleef"),
        ],
        "linked by --config=static only",
    ),
    **dict.fromkeys(
        ["accelerate", "ignite", "torch", "torchinfo"], "Python packages that this program lacks"
    ),
    "torchvision": "compiled into the library of its wheel, which this program lacks",
}
# A phrase from each project's licence, to detect an empty file or another project's licence.
_PHRASES = {
    "bzip2": "Julian R Seward",
    "cc_runtime": "GCC RUNTIME LIBRARY EXCEPTION",
    "libffi": "Anthony Green",
    "openssl": "Apache License",
    "python": "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2",
    "sqlite": "disclaims copyright",
    "xz": "public domain",
    "zlib": "Jean-loup Gailly",
    "zstd": "Zstandard",
}


def _texts() -> dict[str, str]:
    """Map each project linked into the launcher to its concatenated licence texts."""
    texts: dict[str, str] = {}
    with zipfile.ZipFile(subject.PROBE) as archive:
        for name in archive.namelist():
            if match := _LICENCE_FILE.fullmatch(name):
                texts[match[1]] = texts.get(match[1], "") + archive.read(name).decode()
    return texts


def _bill(kind: str) -> set[str]:
    """Return the packages of a kind (vendored, pypi or bazel) in the bill of materials."""
    bill = json.loads(subject.packed("third_party/sbom.spdx.json").read_text())
    prefix = f"SPDXRef-{kind}-"
    return {package["name"] for package in bill["packages"] if package["SPDXID"].startswith(prefix)}


def test_what_is_linked_is_what_the_bill_says() -> None:
    linked = set(_texts()) - {"cc_runtime"}
    assert linked == _bill("vendored") - set(_NOT_LINKED)
    assert set(_NOT_LINKED) <= _bill("vendored"), "an entry of _NOT_LINKED is not in the bill"


@pytest.mark.parametrize("project", _PHRASES)
def test_each_text_is_the_projects_own(project: str) -> None:
    # Ignore case: distributions of GCC differ in how they capitalize the runtime exception.
    assert _PHRASES[project].casefold() in _texts()[project].casefold()


@pytest.mark.parametrize("phrase", ["Thai Open Source Software Center", "Stefan Krah"])
def test_python_brings_the_texts_of_what_it_includes(phrase: str) -> None:
    """CPython includes Expat and libmpdec, which have no entries in the bill of materials."""
    assert phrase in _texts()["python"]


def test_every_project_has_a_phrase() -> None:
    assert set(_texts()) == set(_PHRASES)


def test_wheels_bring_their_own() -> None:
    with zipfile.ZipFile(subject.PROBE) as archive:
        names = archive.namelist()
    wheels = {name.partition(".dist-info/")[0] for name in names if ".dist-info/METADATA" in name}
    assert any(wheel.startswith("numpy-") for wheel in wheels)
    assert wheels == {match[1] for name in names if (match := _TEXT.fullmatch(name))}
