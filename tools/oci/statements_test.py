# SPDX-License-Identifier: Apache-2.0
"""Test an image that the rules build: its programs, bill of materials and provenance."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tools.oci import layout, statements
from tools.oci.descriptor import MANIFEST, Descriptor
from tools.oci.testing.reader import Image, read_blob, read_image

_TESTING = Path(__file__).parent / "testing"
_STATEMENTS = _TESTING / "hello_image.statements"


@pytest.fixture(scope="module")
def image() -> Image:
    return read_image(_TESTING / "hello_image")


def _statement(kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the manifest and contents of the attestation whose type is `kind`."""
    index = json.loads((_STATEMENTS / "index.json").read_text())
    (row,) = [row for row in index["manifests"] if row["artifactType"] == kind]
    manifest = json.loads(read_blob(_STATEMENTS, row))
    (layer,) = manifest["layers"]
    assert layer["mediaType"] == kind
    return manifest, json.loads(read_blob(_STATEMENTS, layer))


def test_the_rule_packs_its_programs(image: Image) -> None:
    config = image.config["config"]
    assert config["Entrypoint"] == ["/app/hello.par"]
    assert "GREETING=hello" in config["Env"]
    files = image.files()
    assert {"/app/hello.par", "/app/closed.par", "/lib64/ld-linux-x86-64.so.2"} <= set(files)
    libc = files["/lib/x86_64-linux-gnu/libc.so.6"]
    assert libc.data[:4] == b"\x7fELF"
    assert b"LGPL" in files["/usr/share/doc/libc6/copyright"].data
    titles = [row["created_by"] for row in image.config["history"]]
    assert titles == ["libc", "interpreter", "numpy", "libraries", "programs"]
    # The programs share one copy of numpy and of the interpreter's bundles.
    assert len([path for path in files if path.startswith("/app/parts/numpy-")]) == 1


def test_an_edit_would_push_kilobytes(image: Image) -> None:
    sizes = [row["size"] for row in image.manifest["layers"]]
    assert sizes[-1] < 500_000 < 10_000_000 < sum(sizes)


def test_a_layout_of_another_tool_can_be_the_base(image: Image) -> None:
    above = read_image(_TESTING / "layered_image")
    assert above.layers[: len(image.layers)] == image.layers
    note = above.manifest["annotations"]["org.opencontainers.image.base.digest"]
    assert note == image.digest


def test_the_bill_of_materials(image: Image) -> None:
    manifest, bill = _statement("application/spdx+json")
    assert manifest["subject"]["digest"] == image.digest
    assert manifest["config"]["mediaType"] == "application/vnd.oci.empty.v1+json"
    packages = {package["name"]: package for package in bill["packages"]}
    assert {"numpy", "python", "openssl", "zstd", "libc6", "hello_image"} == set(packages) & {
        "numpy", "python", "openssl", "zstd", "libc6", "hello_image", "torch", "jax", "rules_cc"
    }  # fmt: skip
    assert packages["zstd"]["licenseDeclared"] == "BSD-3-Clause OR GPL-2.0-only"
    assert packages["hello_image"]["versionInfo"] == image.digest
    assert packages["libc6"]["versionInfo"].startswith("2.36-9+deb12")
    identities = {package["SPDXID"] for package in bill["packages"]}
    contained = {
        row["relatedSpdxElement"]
        for row in bill["relationships"]
        if row["relationshipType"] == "CONTAINS"
    }
    assert contained == identities - {"SPDXRef-image"}
    assert len(identities) == len(bill["packages"])


@pytest.mark.parametrize(
    ("name", "version", "identity"),
    [
        ("torch", "2.0+cpu", "SPDXRef-vendored-torch"),
        ("torch", "3.0", "SPDXRef-variant-torch-newer"),
        ("A_b", "1", "SPDXRef-pypi-a-b"),
        ("A_b", "2", "SPDXRef-pypi-torch-newer-a-b"),
    ],
)
def test_the_bill_describes_the_version_in_the_program(
    name: str, version: str, identity: str
) -> None:
    """Two releases of torch have rows, and need different versions of a package."""
    rows = [
        {"SPDXID": "SPDXRef-variant-torch-newer", "name": "torch", "versionInfo": "3.0"},
        {"SPDXID": "SPDXRef-vendored-torch", "name": "torch", "versionInfo": "2.0+cpu"},
        {"SPDXID": "SPDXRef-pypi-a-b", "name": "a-b", "versionInfo": "1"},
        {"SPDXID": "SPDXRef-pypi-torch-newer-a-b", "name": "a-b", "versionInfo": "2"},
    ]
    bill = statements.bill_of_materials(
        layout.Image(Descriptor.of(MANIFEST, b""), {}, {}),
        "image",
        [statements.Contents({name: (version, "MIT")}, frozenset(), "0")],
        {"creationInfo": {}, "packages": rows},
        with_libc=False,
    )
    (row,) = [row for row in bill["packages"] if row["SPDXID"] != "SPDXRef-image"]
    assert row["SPDXID"] == identity
    assert row in rows


def test_the_provenance(image: Image) -> None:
    manifest, statement = _statement("application/vnd.in-toto+json")
    assert manifest["subject"]["digest"] == image.digest
    predicate = "https://slsa.dev/provenance/v1"
    assert manifest["annotations"] == {"in-toto.io/predicate-type": predicate}
    assert statement["predicateType"] == predicate
    (subject,) = statement["subject"]
    assert f"sha256:{subject['digest']['sha256']}" == image.digest
    build = statement["predicate"]["buildDefinition"]
    assert build["externalParameters"] == {"target": "//tools/oci/testing:hello_image"}
    digests = {row["name"]: row["digest"]["sha256"] for row in build["resolvedDependencies"]}
    par = (_TESTING / "hello.par").read_bytes()
    assert digests["hello.par"] == hashlib.sha256(par).hexdigest()
    assert {"closed.par", "base", "third_party/pypi/lock.json"} <= set(digests)
