# SPDX-License-Identifier: Apache-2.0
"""The table of builders, keyed by their names in import.json."""

from __future__ import annotations

from collections.abc import Mapping

from tools.importer.builders.builder import Builder
from tools.importer.builders.torch_wheel import TorchWheel
from tools.importer.builders.tree import TreeBuilder
from tools.importer.errors import UserError
from tools.importer.project import TREE, Project

_BUILDERS: Mapping[str, Builder] = {"torch_wheel": TorchWheel(), TREE: TreeBuilder()}


def builder_of(project: Project) -> Builder:
    """Return the project's builder. Raises UserError if import.json names an unknown one."""
    try:
        return _BUILDERS[project.builder]
    except KeyError:
        raise UserError(
            f"{project.file}: key 'builder' is '{project.builder}', which does not exist. Use one"
            f" of {', '.join(sorted(_BUILDERS))}, or leave the key out"
        ) from None
