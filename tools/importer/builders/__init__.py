# SPDX-License-Identifier: Apache-2.0
"""Builders: how the build makes a project's tree from its pin, and what that pin contains."""

from tools.importer.builders.builder import Builder
from tools.importer.builders.table import builder_of

__all__ = ["Builder", "builder_of"]
