# SPDX-License-Identifier: Apache-2.0
"""A wheel's top-level modules can be imported in a PAR, without the wheel on disk.

add.py runs this test for the package that it adds. In other runs, the test imports the default
package of the `imported_package` flag in BUILD.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from pathlib import PurePosixPath

from third_party.pypi import lock

# Directories and modules that some wheels contain at their root by mistake.
_NOT_MODULES = {"tests", "test", "docs", "examples", "benchmarks", "setup"}


def _distribution(key: str) -> importlib.metadata.Distribution:
    for distribution in importlib.metadata.distributions():
        if lock.normalize(distribution.metadata["Name"]) == key:
            return distribution
    raise AssertionError(
        f"{key} is not in this program; pass --imported_package with IMPORTED_PACKAGE"
    )


def _top_level_modules(distribution: importlib.metadata.Distribution) -> list[str]:
    modules = set()
    for file in distribution.files or []:
        path = PurePosixPath(str(file))
        if path.suffix not in (".py", ".so") or ".." in path.parts:
            continue
        name = path.parts[0].partition(".")[0]
        if name.isidentifier() and name not in _NOT_MODULES:
            modules.add(name)
    return sorted(modules)


def test_the_package_can_be_imported() -> None:
    distribution = _distribution(os.environ.get("IMPORTED_PACKAGE", "tqdm"))
    modules = _top_level_modules(distribution)
    assert modules, f"{distribution.metadata['Name']} has no Python module"
    for module in modules:
        importlib.import_module(module)
