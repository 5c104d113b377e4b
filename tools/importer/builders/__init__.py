# SPDX-License-Identifier: Apache-2.0
"""Builders: each defines the contents of a project's pin and makes the project's tree from it."""

from tools.importer.builders.builder import Builder
from tools.importer.builders.table import builder_of

__all__ = ["Builder", "builder_of"]
