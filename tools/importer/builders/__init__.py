# SPDX-License-Identifier: Apache-2.0
"""Builders define the contents of a project's pin, and create the project's tree from it."""

from tools.importer.builders.builder import Builder
from tools.importer.builders.table import builder_of

__all__ = ["Builder", "builder_of"]
