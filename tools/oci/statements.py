# SPDX-License-Identifier: Apache-2.0
"""Attestations about an image: a bill of materials (SPDX 2.3) and provenance (SLSA 1, in-toto).

They are separate manifests that name the image as their subject, so they do not change the image's
digest. They have their own layout, with one manifest per attestation.
"""

from __future__ import annotations

import dataclasses
import email
import hashlib
import json
import re
import zipfile
from pathlib import Path
from typing import Any

from tools.oci.descriptor import EMPTY, MANIFEST, Descriptor, canonical
from tools.oci.layout import Image, Layout

SPDX = "application/spdx+json"
IN_TOTO = "application/vnd.in-toto+json"
_PREDICATE = "in-toto.io/predicate-type"
_SLSA = "https://slsa.dev/provenance/v1"
# SLSA's buildType, a URI that defines how to interpret the provenance's parameters. See README.md.
_BUILD_TYPE = "pkg:bazel/torch_google#tools/oci/image/v1"
_LICENCES = ".par/licences/"
_LIBC = "pkg:deb/debian/libc6@"


@dataclasses.dataclass(frozen=True)
class Contents:
    """The projects in a PAR, and the PAR's digest.

    distributions: maps each Python package to its version and licence.
    projects: names of the projects whose code is linked into the launcher.
    digest: the SHA-256 of the PAR file, in hexadecimal.
    """

    distributions: dict[str, tuple[str, str]]
    projects: frozenset[str]
    digest: str


def read_contents(par: Path) -> Contents:
    distributions = {}
    projects = set()
    with zipfile.ZipFile(par) as archive:
        for name in archive.namelist():
            if name.startswith(_LICENCES):
                projects.add(name.removeprefix(_LICENCES).partition("/")[0])
            elif name.endswith(".dist-info/METADATA") and name.count("/") == 1:
                about = email.message_from_bytes(archive.read(name))
                licence = about["License-Expression"] or "NOASSERTION"
                distributions[str(about["Name"])] = (str(about["Version"]), licence)
    with par.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return Contents(distributions, frozenset(projects), digest)


def bill_of_materials(
    image: Image, name: str, contents: list[Contents], workspace: dict[str, Any], *, with_libc: bool
) -> dict[str, Any]:
    """Return an SPDX document that lists the packages in the PARs.

    Descriptions come from the workspace's bill of materials, or else from a package's metadata.
    """
    known = {package["SPDXID"]: package for package in workspace["packages"]}
    # There is a row for each release of torch, and releases need different versions of a package.
    # Exclude Bazel modules, which are build tools and not part of an image.
    rows_by_name: dict[str, list[dict[str, Any]]] = {}
    for identity, package in known.items():
        if "-bazel-" not in identity:
            rows_by_name.setdefault(_slug(package["name"]), []).append(package)
    packages: dict[str, dict[str, Any]] = {}
    for one in contents:
        for project in one.projects:
            identity = f"SPDXRef-vendored-{_slug(project)}"
            packages[identity] = known.get(identity) or _package(identity, project)
        for distribution, (version, licence) in one.distributions.items():
            slug = _slug(distribution)
            described = rows_by_name.get(slug, [])
            same_version = [row for row in described if row["versionInfo"] == version]
            if same_version:
                package = same_version[0]
            else:
                identity = described[-1]["SPDXID"] if described else f"SPDXRef-pypi-{slug}"
                purl = f"pkg:pypi/{slug}@{version}"
                package = _package(identity, distribution, version, licence, purl)
            packages[package["SPDXID"]] = package
    if with_libc:
        purl = _libc_purl(workspace)
        version = purl.removeprefix(_LIBC).partition("?")[0].replace("%2B", "+")
        packages["SPDXRef-debian-libc6"] = _package(
            "SPDXRef-debian-libc6", "libc6", version, "LGPL-2.1-or-later", purl
        )
    digest = image.descriptor.hex
    purl = f"pkg:oci/{name}@sha256%3A{digest}"
    root = _package("SPDXRef-image", name, f"sha256:{digest}", "NOASSERTION", purl)
    rows = [packages[identity] for identity in sorted(packages)]
    return {
        "SPDXID": "SPDXRef-DOCUMENT",
        "creationInfo": workspace["creationInfo"],
        "dataLicense": "CC0-1.0",
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{digest}",
        "name": name,
        "packages": [root, *rows],
        "relationships": [
            _relation("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-image"),
            *(_relation("SPDXRef-image", "CONTAINS", row["SPDXID"]) for row in rows),
        ],
        "spdxVersion": "SPDX-2.3",
    }


def provenance(
    image: Image,
    name: str,
    *,
    target: str,
    pars: dict[str, Contents],
    base: Descriptor,
    materials: dict[str, Path],
) -> dict[str, Any]:
    """Return an in-toto statement. It has no timestamps, so identical builds give identical bytes.

    materials: maps names to the files that determine the build, such as the packages' lock file.
    """
    dependencies = [
        {"name": par, "digest": {"sha256": contents.digest}} for par, contents in pars.items()
    ]
    dependencies.append({"name": "base", "digest": {"sha256": base.hex}})
    for material, path in materials.items():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        dependencies.append({"name": material, "digest": {"sha256": digest}})
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": image.descriptor.hex}}],
        "predicateType": _SLSA,
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD_TYPE,
                "externalParameters": {"target": target},
                "resolvedDependencies": dependencies,
            },
            "runDetails": {"builder": {"id": "pkg:bazel/torch_google#tools/oci"}},
        },
    }


def write_statements(
    output: Path, image: Image, *, bill: dict[str, Any], origin: dict[str, Any]
) -> None:
    layout = Layout.create(output)
    rows = [
        _attach(layout, image, SPDX, bill, {}),
        _attach(layout, image, IN_TOTO, origin, {_PREDICATE: _SLSA}),
    ]
    layout.write_index(rows)


def _attach(
    layout: Layout, image: Image, media_type: str, value: dict[str, Any], notes: dict[str, str]
) -> Descriptor:
    empty = layout.add(EMPTY, b"{}")
    subject = dataclasses.replace(image.descriptor, more=())
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": media_type,
        "config": empty.json(),
        "layers": [layout.add(media_type, canonical(value)).json()],
        "subject": subject.json(),
    }
    more: dict[str, Any] = {"artifactType": media_type}
    if notes:
        manifest["annotations"] = more["annotations"] = notes
    return layout.add(MANIFEST, canonical(manifest), **more)


def _package(
    identity: str, name: str, version: str = "NOASSERTION", licence: str = "", purl: str = ""
) -> dict[str, Any]:
    package: dict[str, Any] = {
        "SPDXID": identity,
        "copyrightText": "NOASSERTION",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence or "NOASSERTION",
        "name": name,
        "supplier": "NOASSERTION",
        "versionInfo": version,
    }
    if purl:
        package["externalRefs"] = [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceLocator": purl,
                "referenceType": "purl",
            }
        ]
    return package


def _libc_purl(workspace: dict[str, Any]) -> str:
    for package in workspace["packages"]:
        for reference in package.get("externalRefs", ()):
            if reference["referenceLocator"].startswith(_LIBC):
                return str(reference["referenceLocator"])
    raise ValueError("the workspace's bill of materials has no libc6; build it again")


def _relation(source: str, kind: str, target: str) -> dict[str, str]:
    return {"relatedSpdxElement": target, "relationshipType": kind, "spdxElementId": source}


def _slug(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def read_bill(path: Path) -> dict[str, Any]:
    bill: dict[str, Any] = json.loads(path.read_bytes())
    return bill
