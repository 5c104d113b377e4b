# SPDX-License-Identifier: Apache-2.0
"""Show the merge outcome of each patch of a series on several upstream releases."""

from tools.importer.drift.advice import Attention, attention
from tools.importer.drift.document import from_document, to_document, to_json
from tools.importer.drift.explain import to_explanation
from tools.importer.drift.output import write_report
from tools.importer.drift.page import Section, to_page, to_page_of_projects
from tools.importer.drift.table import (
    Cell,
    FileCell,
    Release,
    Row,
    Table,
    Target,
    measure,
    measure_release,
)
from tools.importer.drift.terminal import to_terminal
from tools.importer.drift.text import to_text

__all__ = [
    "Attention",
    "Cell",
    "FileCell",
    "Release",
    "Row",
    "Section",
    "Table",
    "Target",
    "attention",
    "from_document",
    "measure",
    "measure_release",
    "to_document",
    "to_explanation",
    "to_json",
    "to_page",
    "to_page_of_projects",
    "to_terminal",
    "to_text",
    "write_report",
]
