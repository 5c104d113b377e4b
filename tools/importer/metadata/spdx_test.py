# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from tools.importer.metadata import SBOM
from tools.importer.metadata.locked import Locked, Wheels
from tools.importer.metadata.metadata_file import LicenseType, Metadata, Url, UrlType
from tools.importer.metadata.spdx import Inventory, render
from tools.importer.metadata.vendored import Vendored

_HERE = Path(__file__).parent
_HOME = Url(UrlType.HOMEPAGE, "https://zlib.net")
_ARCHIVE = Url(UrlType.ARCHIVE, "https://example.com/zlib-1.3.tar.gz")
_ZLIB = Vendored(
    name="zlib",
    metadata="third_party/zlib/METADATA",
    version="v1.3",
    release="1.3",
    urls=(_ARCHIVE,),
    purls=("pkg:generic/zlib@1.3",),
    filename="zlib-1.3.tar.gz",
    sha256="0" * 64,
    needs=("a_b",),
)
_ABOUT = Metadata(
    "zlib",
    "Deflate.",
    (_HOME, _ARCHIVE),
    "v1.3",
    datetime.date(2026, 11, 20),
    LicenseType.NOTICE,
    "Zlib",
)
_WHEEL = Locked("a_b", "A.b", "2", "pkg:pypi/a-b@2", "MIT", "a_b-2.whl", "1" * 64, ("c",))
_OTHER = Locked("c", "c", "3", "pkg:pypi/c@3", "")
_MODULE = Locked("rules", "rules", "1", "pkg:bazel/rules@1", "Apache-2.0")
_INVENTORY = Inventory(
    "ws", "0.1", [(_ZLIB, _ABOUT)], Wheels((_WHEEL, _OTHER), ("a_b",), ()), [_MODULE]
)


def problems(document: dict[str, Any]) -> list[str]:
    """Return the defects of a document: schema violations, then violations of other SPDX rules."""
    schema = json.loads((_HERE / "spdx-2.3.schema.json").read_text())
    try:
        fastjsonschema.compile(schema)(document)
    except fastjsonschema.JsonSchemaException as error:
        return [str(error)]
    ids = [package["SPDXID"] for package in document["packages"]]
    faults = [f"{key} twice" for key in set(ids) if ids.count(key) > 1]
    known = {*ids, document["SPDXID"]}
    linked = {document["SPDXID"]}
    for row in document["relationships"]:
        ends = {row["spdxElementId"], row["relatedSpdxElement"]}
        faults += [f"no element {key}" for key in ends - known]
        linked |= ends
    faults += [f"{key} is related to nothing" for key in known - linked]
    for package in document["packages"]:
        licence = package["licenseDeclared"]
        if licence == "NOASSERTION":
            continue
        try:
            same = licence == canonicalize_license_expression(licence)
        except InvalidLicenseExpression as error:
            faults.append(f"{package['SPDXID']}: {error}")
        else:
            faults += [] if same else [f"{package['SPDXID']}: '{licence}' is spelled otherwise"]
    return faults


def _document(inventory: Inventory = _INVENTORY) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(render(inventory))
    return document


def test_the_document_is_valid_and_tells_all() -> None:
    document = _document()
    assert problems(document) == []
    by_id = {package["SPDXID"]: package for package in document["packages"]}
    assert list(by_id) == [
        "SPDXRef-workspace",
        "SPDXRef-bazel-rules",
        "SPDXRef-pypi-a-b",
        "SPDXRef-pypi-c",
        "SPDXRef-vendored-zlib",
    ]
    zlib = by_id["SPDXRef-vendored-zlib"]
    assert (zlib["versionInfo"], zlib["licenseDeclared"]) == ("1.3", "Zlib")
    assert zlib["checksums"] == [{"algorithm": "SHA256", "checksumValue": "0" * 64}]
    assert (zlib["downloadLocation"], zlib["homepage"]) == (_ARCHIVE.value, _HOME.value)
    assert by_id["SPDXRef-pypi-c"]["licenseDeclared"] == "NOASSERTION"
    assert by_id["SPDXRef-pypi-a-b"]["name"] == "A.b"
    rows = {
        f"{row['spdxElementId']} {row['relationshipType']} {row['relatedSpdxElement']}"
        for row in document["relationships"]
    }
    assert rows == {
        "SPDXRef-DOCUMENT DESCRIBES SPDXRef-workspace",
        "SPDXRef-workspace DEPENDS_ON SPDXRef-vendored-zlib",
        "SPDXRef-workspace DEPENDS_ON SPDXRef-pypi-a-b",
        "SPDXRef-vendored-zlib DEPENDS_ON SPDXRef-pypi-a-b",
        "SPDXRef-pypi-a-b DEPENDS_ON SPDXRef-pypi-c",
        "SPDXRef-bazel-rules BUILD_TOOL_OF SPDXRef-workspace",
    }


def test_a_variant_is_an_optional_dependency() -> None:
    variant = replace(_ZLIB, release="1.3+fast", needs=("c",))
    document = _document(replace(_INVENTORY, variants={"zlib-fast": (variant, _ABOUT)}))
    assert problems(document) == []
    (package,) = (p for p in document["packages"] if p["versionInfo"] == "1.3+fast")
    assert (package["SPDXID"], package["name"]) == ("SPDXRef-variant-zlib-fast", "zlib")
    rows = {
        (row["relationshipType"], row["relatedSpdxElement"])
        for row in document["relationships"]
        if row["spdxElementId"] == "SPDXRef-variant-zlib-fast"
    }
    assert rows == {
        ("OPTIONAL_DEPENDENCY_OF", "SPDXRef-workspace"),
        ("DEPENDS_ON", "SPDXRef-pypi-c"),
    }


def test_a_project_in_place_of_a_wheel_is_listed_once() -> None:
    project = replace(_ZLIB, name="a", needs=(), replaces=frozenset({"a_b", "unlocked"}))
    user = Locked("d", "d", "4", "pkg:pypi/d@4", "MIT", needs=("a_b",))
    wheels = Wheels((_WHEEL, _OTHER, user), ("a_b", "d"), (), ("a_b",))
    document = _document(replace(_INVENTORY, vendored=[(project, _ABOUT)], wheels=wheels))
    assert problems(document) == []
    assert "SPDXRef-pypi-a-b" not in {package["SPDXID"] for package in document["packages"]}
    rows = [
        f"{row['spdxElementId']} {row['relationshipType']} {row['relatedSpdxElement']}"
        for row in document["relationships"]
    ]
    assert sorted(rows) == [
        "SPDXRef-DOCUMENT DESCRIBES SPDXRef-workspace",
        "SPDXRef-bazel-rules BUILD_TOOL_OF SPDXRef-workspace",
        "SPDXRef-pypi-d DEPENDS_ON SPDXRef-vendored-a",
        "SPDXRef-vendored-a DEPENDS_ON SPDXRef-pypi-c",
        "SPDXRef-workspace DEPENDS_ON SPDXRef-pypi-d",
        "SPDXRef-workspace DEPENDS_ON SPDXRef-vendored-a",
    ]


def test_what_tests_need_is_no_dependency() -> None:
    wheels = Wheels((_WHEEL, _OTHER), (), (), ("a_b",))
    document = _document(replace(_INVENTORY, wheels=wheels))
    assert problems(document) == []
    relations = [
        row for row in document["relationships"] if row["spdxElementId"] == "SPDXRef-pypi-a-b"
    ]
    assert {row["relationshipType"] for row in relations} == {"TEST_TOOL_OF", "DEPENDS_ON"}


def test_same_inputs_same_bytes_and_any_change_is_another_namespace() -> None:
    assert render(_INVENTORY) == render(replace(_INVENTORY, name="ws"))
    shuffled = Wheels((_OTHER, _WHEEL), ("a_b",), ())
    assert render(replace(_INVENTORY, wheels=shuffled)) == render(_INVENTORY)
    moved = replace(_INVENTORY, modules=[replace(_MODULE, licence="MIT")])
    assert _document(moved)["documentNamespace"] != _document()["documentNamespace"]


def test_it_is_dated_by_the_last_upgrade() -> None:
    older = replace(_ABOUT, last_upgrade=datetime.date(2025, 1, 1))
    both = replace(_INVENTORY, vendored=[(replace(_ZLIB, name="old"), older), (_ZLIB, _ABOUT)])
    assert _document(both)["creationInfo"]["created"] == "2026-11-20T00:00:00Z"


@pytest.mark.parametrize(
    ("name", "kind"),
    [("clang", "BUILD_TOOL_OF"), ("make", "BUILD_TOOL_OF"), ("buildifier", "DEV_TOOL_OF")],
)
def test_tools_are_no_part_of_what_is_shipped(name: str, kind: str) -> None:
    tool = replace(_INVENTORY, vendored=[(replace(_ZLIB, name=name), _ABOUT)])
    relationships = {
        row["relationshipType"]
        for row in _document(tool)["relationships"]
        if f"SPDXRef-vendored-{name}" in (row["spdxElementId"], row["relatedSpdxElement"])
        and "SPDXRef-workspace" in (row["spdxElementId"], row["relatedSpdxElement"])
    }
    assert relationships == {kind}


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"pkg:generic/zlib@1.3"', '"zlib 1.3"', "referenceLocator must match pattern"),
        ('"Zlib"', '"ZLIB licence"', "Invalid license expression"),
        ('"Zlib"', '"zlib"', "'zlib' is spelled otherwise"),
        (
            '"relatedSpdxElement": "SPDXRef-pypi-c"',
            '"relatedSpdxElement": "SPDXRef-d"',
            "SPDXRef-d",
        ),
        ('"SPDXID": "SPDXRef-pypi-c"', '"SPDXID": "SPDXRef-pypi-a-b"', "SPDXRef-pypi-a-b twice"),
        ('"BUILD_TOOL_OF"', '"TOOL_OF"', "relationshipType must be one of"),
        ('"0000', '"00', "checksumValue must match pattern"),
        ('"spdxVersion"', '"version"', "must contain"),
        ('"summary"', '"about"', "must not contain"),
    ],
)
def test_the_validation_can_fail(old: str, new: str, fault: str) -> None:
    text = render(_INVENTORY).decode()
    assert old in text
    assert re.search(fault, "\n".join(problems(json.loads(text.replace(old, new)))))


def test_the_one_of_this_workspace_is_valid() -> None:
    document = json.loads((_HERE.parents[2] / SBOM).read_text("utf-8"))
    assert problems(document) == []
    assert len(document["packages"]) > 40
    assert "SPDXRef-variant-torch-cuda" in {package["SPDXID"] for package in document["packages"]}
