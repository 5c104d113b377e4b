# SPDX-License-Identifier: Apache-2.0
"""Generate the rules' patch files. The generated patches in a patch series must match them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.importer.engine import Change, header_of, render_patch
from tools.importer.rewrites.facts import Modules
from tools.importer.rewrites.rule import Rule
from tools.importer.rewrites.run import HEADER, find_rule, generated, run_rule
from tools.importer.rewrites.torch_rules import RULES
from tools.importer.series import Patch, Series
from tools.importer.snapshot import Blob, OverlaySnapshot, Snapshot
from tools.importer.unified import parse_diff

_CONTEXT = 1  # context lines; one is enough, because the patch is generated for each tree


def patch_files(
    series: Series,
    snapshot: Snapshot,
    label: str,
    *,
    rules: Sequence[Rule] = RULES,
    modules: Modules | None = None,
) -> dict[str, bytes]:
    """Return the patches that the rules generate from upstream's tree, keyed by file name.

    Existing patches in the series keep their order and names. A new one is appended as
    `<rule>.patch`. A rule without a target has no patch. Raises UserError if a rule cannot be
    applied.
    """
    named = {patch.header[HEADER]: patch.name for patch in generated(series)}
    unlisted = [rule.name for rule in rules if rule.operations and rule.name not in named]
    patches = {}
    modules = Modules() if modules is None else modules
    tree: Snapshot = snapshot
    for name in [*named, *unlisted]:
        done = run_rule(find_rule(name, rules), tree, label, modules=modules)
        if done.files or name in named:
            patches[named.get(name, f"{name}.patch")] = render_rewrite(done.rule, done.files, tree)
        tree = OverlaySnapshot(tree, done.files)
    return patches


def regenerated_patch(
    patch: Patch, tree: Snapshot, label: str, *, rules: Sequence[Rule] = RULES
) -> bytes:
    """Return a generated patch for `tree`, which must have the earlier patches applied."""
    done = run_rule(find_rule(patch.header[HEADER], rules), tree, label)
    return render_rewrite(done.rule, done.files, tree)


def render_rewrite(rule: Rule, files: Mapping[str, Blob], before: Snapshot) -> bytes:
    """Return a patch file with a rule's changes and the rule's header."""
    changes = [Change(path, path, before.read(path), files[path]) for path in sorted(files)]
    header = [f"Subject: {rule.about}", *(f"{key}: {text}" for key, text in rule.header.items())]
    header.append(f"{HEADER}: {rule.name}")
    return render_patch("\n".join(header).encode("utf-8"), changes, context=_CONTEXT)


def same_patch(one: bytes, other: bytes) -> bool:
    """Return whether two patch files are equal except for the order of the files in them."""
    if header_of(one) != header_of(other):
        return False
    first, second = parse_diff(one), parse_diff(other)
    return sorted(first, key=lambda diff: diff.path) == sorted(second, key=lambda diff: diff.path)
