# SPDX-License-Identifier: Apache-2.0
"""The patch file of a rule: what the series commits, equal to what the rule makes of the tree."""

from __future__ import annotations

from collections.abc import Mapping

from tools.importer.engine import Change, render_patch
from tools.importer.rewrites.reach import Modules
from tools.importer.rewrites.regenerate import HEADER, find_rule, generated, run_rule
from tools.importer.rewrites.rule import Rule
from tools.importer.series import Series
from tools.importer.snapshot import Blob, OverlaySnapshot, Snapshot

_CONTEXT = 1  # the patch is made anew for each tree, so its context has nothing to find


def patch_files(series: Series, snapshot: Snapshot, label: str) -> dict[str, bytes]:
    """Return each generated patch of the series, by name, as its rule makes it of upstream's tree.

    Raises UserError as the rules do.
    """
    made = {}
    modules = Modules()
    tree: Snapshot = snapshot
    for patch in generated(series):
        done = run_rule(find_rule(patch.header[HEADER]), tree, label, modules=modules)
        made[patch.name] = render_rewrite(done.rule, done.files, tree)
        tree = OverlaySnapshot(tree, done.files)
    return made


def render_rewrite(rule: Rule, files: Mapping[str, Blob], before: Snapshot) -> bytes:
    """Return the patch file of a rule's result: the header is the rule's too."""
    changes = [Change(path, path, before.read(path), files[path]) for path in sorted(files)]
    header = [f"Subject: {rule.about}", *(f"{key}: {text}" for key, text in rule.header.items())]
    header.append(f"{HEADER}: {rule.name}")
    return render_patch("\n".join(header).encode("utf-8"), changes, context=_CONTEXT)
