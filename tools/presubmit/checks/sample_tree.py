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
    """Write `contents`, which maps paths to text, and copy the workspace's `settings` files.

    Returns the tree of the files in `contents`, under `root`.
    """
    for path, content in contents.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    for name in settings:
        shutil.copyfile(_WORKSPACE / name, root / name)
    return tree.Tree(root, contents)
