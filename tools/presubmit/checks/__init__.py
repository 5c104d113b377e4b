# SPDX-License-Identifier: Apache-2.0
"""A table of the checks in the order in which they run, cheap ones first."""

from __future__ import annotations

import collections.abc
import dataclasses

from tools.presubmit import finding, tree
from tools.presubmit.checks import (
    bazel_files,
    c_format,
    catalogue,
    commit_subjects,
    forbidden,
    licence,
    links,
    metadata,
    modes,
    names,
    promises,
    python_style,
    python_types,
    rooms,
    series,
    size,
    temporary_files,
)

__all__ = ["CHECKS", "Check"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
    """A rule with a function that finds violations and, for some rules, one that fixes them."""

    name: str
    about: str
    find: collections.abc.Callable[[tree.Tree], collections.abc.Iterable[finding.Finding]]
    fix: collections.abc.Callable[[tree.Tree], None] | None = None


CHECKS = (
    Check(name="licence", about="every source starts with its licence", find=licence.find),
    Check(name="forbidden", about="no hosts, machine paths or notes to self", find=forbidden.find),
    Check(name="size", about="files short enough to read in one sitting", find=size.find),
    Check(name="names", about="file names that describe the contents", find=names.find),
    Check(name="temporary", about="no empty or temporary files", find=temporary_files.find),
    Check(name="subjects", about="form and length of new subjects", find=commit_subjects.find),
    Check(name="rooms", about="every room has a README", find=rooms.find),
    Check(name="links", about="links between documents lead somewhere", find=links.find),
    Check(
        name="promises",
        about="tables of promises name tests that exist; one page links them",
        find=promises.find,
    ),
    Check(name="modes", about="executable if and only if it starts with #!", find=modes.find),
    Check(name="series", about="patch series: order, headers, strays", find=series.find),
    Check(
        name="catalogue",
        about="changes to torch: each id occurs once, with a test",
        find=catalogue.find,
        fix=catalogue.fix,
    ),
    Check(name="metadata", about="METADATA and SBOM follow the pins", find=metadata.find),
    Check(
        name="ruff",
        about="Python lint and format",
        find=python_style.find,
        fix=python_style.fix,
    ),
    Check(
        name="buildifier",
        about="BUILD and .bzl lint and format",
        find=bazel_files.find,
        fix=bazel_files.fix,
    ),
    Check(name="clang-format", about="C and C++ format", find=c_format.find, fix=c_format.fix),
    Check(name="mypy", about="Python types, strict", find=python_types.find),
)
