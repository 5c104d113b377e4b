# SPDX-License-Identifier: Apache-2.0
"""Create small source trees for the tests of the checks."""

from __future__ import annotations

import collections.abc
import pathlib
import shutil

from tools.presubmit import tree

_WORKSPACE = pathlib.Path(__file__).parents[3]


def write(
    root: pathlib.Path, contents: collections.abc.Mapping[str, str | bytes], *settings: str
) -> tree.Tree:
    """Create the files in `contents`, which maps paths to text or bytes, under `root`.

    `settings` names files, such as pyproject.toml, to copy from the workspace to `root`. Returns a
    tree that lists only the files in `contents`.
    """
    for path, content in contents.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    for name in settings:
        shutil.copyfile(_WORKSPACE / name, root / name)
    return tree.Tree(root, contents)
