# SPDX-License-Identifier: Apache-2.0
"""Metadata for third-party code: METADATA files, the bill of materials, and licence checks."""

from tools.importer.metadata.licence import (
    ACKNOWLEDGE,
    LicenceRecord,
    check_licence,
    licence_file,
    load_record,
    words_digest,
)
from tools.importer.metadata.metadata_file import (
    UPDATE,
    LicenseType,
    Metadata,
    Url,
    UrlType,
    load_metadata,
)
from tools.importer.metadata.workspace import (
    Problem,
    check_all,
    render_added,
    render_all,
    render_project,
    render_workspace,
    write_all,
)
from tools.importer.project import SBOM

__all__ = [
    "ACKNOWLEDGE",
    "SBOM",
    "UPDATE",
    "LicenceRecord",
    "LicenseType",
    "Metadata",
    "Problem",
    "Url",
    "UrlType",
    "check_all",
    "check_licence",
    "licence_file",
    "load_metadata",
    "load_record",
    "render_added",
    "render_all",
    "render_project",
    "render_workspace",
    "words_digest",
    "write_all",
]
