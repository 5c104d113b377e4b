# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of the workspace: a deterministic SPDX 2.3 document in JSON.

Its date is that of the last upgrade of a vendored dependency, and its namespace contains a hash of
its content, so the document depends on neither the clock nor random numbers.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tools.importer.metadata.locked import Locked, Wheels
from tools.importer.metadata.metadata_file import Metadata
from tools.importer.metadata.vendored import Vendored

_UNKNOWN = "NOASSERTION"
_NAMESPACES = "https://spdx.org/spdxdocs"
_ROOT = "SPDXRef-workspace"
_OWN_LICENCE = "Apache-2.0"

# Tools that run only during a build or for formatting, so they are not part of any artifact.
_TOOLS = {"clang": "BUILD_TOOL_OF", "make": "BUILD_TOOL_OF", "buildifier": "DEV_TOOL_OF"}

_Json = dict[str, object]


@dataclass(frozen=True)
class Inventory:
    """All components in the bill of materials.

    `variants` maps a name, such as torch-cuda, to a dependency that some builds use in place of the
    vendored one with the same METADATA.
    """

    name: str
    version: str
    vendored: Sequence[tuple[Vendored, Metadata]]
    wheels: Wheels
    modules: Sequence[Locked]
    variants: Mapping[str, tuple[Vendored, Metadata]] = field(default_factory=dict)

    def replacement_of(self, wheel: str) -> str | None:
        """Return the dependency that a build uses instead of this wheel, if any."""
        return next((each.name for each, _ in self.vendored if wheel in each.replaces), None)

    def wheel_id(self, wheel: str) -> str:
        """Return the id of the package that a wheel's key refers to."""
        replacement = self.replacement_of(wheel)
        return spdx_id("pypi", wheel) if replacement is None else spdx_id("vendored", replacement)


def render(inventory: Inventory) -> bytes:
    """Return the document as JSON. The output is deterministic."""
    packages = sorted(_packages(inventory), key=_by_id)
    days = [metadata.last_upgrade for _, metadata in inventory.vendored]
    created = max(days, default=datetime.date(1970, 1, 1))
    document: _Json = {
        "SPDXID": "SPDXRef-DOCUMENT",
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "name": f"{inventory.name}-{inventory.version}",
        "creationInfo": {
            "created": f"{created.isoformat()}T00:00:00Z",
            "creators": [f"Tool: {inventory.name}-metadata"],
        },
        "packages": [_root(inventory), *packages],
        "relationships": _distinct(_relationships(inventory)),
    }
    digest = hashlib.sha256(_dumps(document)).hexdigest()
    document["documentNamespace"] = f"{_NAMESPACES}/{document['name']}-{digest}"
    return _dumps(document)


def spdx_id(kind: str, name: str) -> str:
    """Return a package's id in the document: SPDX allows letters, digits, dots and dashes."""
    return f"SPDXRef-{kind}-{re.sub(r'[^A-Za-z0-9.-]', '-', name)}"


def _packages(inventory: Inventory) -> Iterator[_Json]:
    for vendored, metadata in inventory.vendored:
        yield _vendored_package(spdx_id("vendored", vendored.name), vendored, metadata)
    for name, (vendored, metadata) in inventory.variants.items():
        yield _vendored_package(spdx_id("variant", name), vendored, metadata)
    for kind, rows in (("pypi", inventory.wheels.packages), ("bazel", inventory.modules)):
        for row in rows:
            if kind == "pypi" and inventory.replacement_of(row.key) is not None:
                continue
            yield _package(
                spdx_id(kind, row.key),
                row.name,
                row.version,
                licence=row.licence,
                purls=(row.purl,),
                filename=row.filename,
                sha256=row.sha256,
            )


def _vendored_package(key: str, vendored: Vendored, metadata: Metadata) -> _Json:
    package = _package(
        key,
        vendored.name,
        vendored.release,
        licence=metadata.license_note,
        purls=vendored.purls,
        filename=vendored.filename,
        sha256=vendored.sha256,
        download=vendored.download,
    )
    package["licenseComments"] = f"{vendored.metadata} has {metadata.license_type.value}"
    package["summary"] = metadata.description
    if metadata.homepage:
        package["homepage"] = metadata.homepage
    if vendored.source_info:
        package["sourceInfo"] = vendored.source_info
    return package


def _root(inventory: Inventory) -> _Json:
    purl = f"pkg:bazel/{inventory.name}@{inventory.version}"
    return _package(_ROOT, inventory.name, inventory.version, licence=_OWN_LICENCE, purls=(purl,))


def _package(
    key: str,
    name: str,
    version: str,
    *,
    licence: str,
    purls: Iterable[str],
    filename: str = "",
    sha256: str = "",
    download: str = "",
) -> _Json:
    package: _Json = {
        "SPDXID": key,
        "name": name,
        "versionInfo": version,
        # Wheels and modules are downloaded from whichever index the machine is configured to use.
        "downloadLocation": download or _UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": _UNKNOWN,
        "licenseDeclared": licence or _UNKNOWN,
        "copyrightText": _UNKNOWN,
        "supplier": _UNKNOWN,
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": purl,
            }
            for purl in purls
        ],
    }
    if filename:
        package["packageFileName"] = filename
    if sha256:
        package["checksums"] = [{"algorithm": "SHA256", "checksumValue": sha256}]
    return package


def _relationships(inventory: Inventory) -> Iterator[_Json]:
    yield _relation("SPDXRef-DOCUMENT", "DESCRIBES", _ROOT)
    for vendored, _ in inventory.vendored:
        key = spdx_id("vendored", vendored.name)
        if vendored.name in _TOOLS:
            yield _relation(key, _TOOLS[vendored.name], _ROOT)
        else:
            yield _relation(_ROOT, "DEPENDS_ON", key)
        for need in vendored.needs:
            yield _relation(key, "DEPENDS_ON", inventory.wheel_id(need))
    for name, (variant, _) in inventory.variants.items():
        key = spdx_id("variant", name)
        yield _relation(key, "OPTIONAL_DEPENDENCY_OF", _ROOT)
        for need in variant.needs:
            yield _relation(key, "DEPENDS_ON", inventory.wheel_id(need))
    for direct in inventory.wheels.direct:
        yield _relation(_ROOT, "DEPENDS_ON", inventory.wheel_id(direct))
    for tool in inventory.wheels.of_tests:
        if inventory.replacement_of(tool) is None:
            yield _relation(spdx_id("pypi", tool), "TEST_TOOL_OF", _ROOT)
    for wheel in inventory.wheels.packages:
        for need in wheel.needs:
            yield _relation(inventory.wheel_id(wheel.key), "DEPENDS_ON", inventory.wheel_id(need))
    for module in inventory.modules:
        yield _relation(spdx_id("bazel", module.key), "BUILD_TOOL_OF", _ROOT)


def _relation(left: str, kind: str, right: str) -> _Json:
    return {"spdxElementId": left, "relationshipType": kind, "relatedSpdxElement": right}


def _distinct(rows: Iterable[_Json]) -> list[_Json]:
    """Return the relationships, sorted, without the duplicates that a replaced wheel may cause."""
    return [json.loads(text) for text in sorted({json.dumps(row) for row in rows})]


def _by_id(package: _Json) -> str:
    return str(package["SPDXID"])


def _dumps(document: _Json) -> bytes:
    return (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()
