# SPDX-License-Identifier: Apache-2.0
"""Patches that rules generate for each upstream tree, and checks for calls that they miss."""

from tools.importer.rewrites.facts import Modules
from tools.importer.rewrites.finding import Finding, refuse
from tools.importer.rewrites.known_calls import with_known_calls, with_proposals
from tools.importer.rewrites.patch_file import (
    patch_files,
    regenerated_patch,
    render_rewrite,
    same_patch,
)
from tools.importer.rewrites.rule import Kept, Operation, Rule
from tools.importer.rewrites.run import (
    HEADER,
    Guarded,
    Rewritten,
    check_guards,
    decide,
    decisions,
    find_rule,
    generated,
    look,
    regenerate,
    run_rule,
)
from tools.importer.rewrites.torch_rules import RULES

__all__ = [
    "HEADER",
    "RULES",
    "Finding",
    "Guarded",
    "Kept",
    "Modules",
    "Operation",
    "Rewritten",
    "Rule",
    "check_guards",
    "decide",
    "decisions",
    "find_rule",
    "generated",
    "look",
    "patch_files",
    "refuse",
    "regenerate",
    "regenerated_patch",
    "render_rewrite",
    "run_rule",
    "same_patch",
    "with_known_calls",
    "with_proposals",
]
