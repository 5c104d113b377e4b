# SPDX-License-Identifier: Apache-2.0
"""Run a rewrite rule on a tree; return the changed files, and the calls that it does not cover.

The result is regenerated for each tree, never merged. A call that upstream has added is either
rewritten or reported as a finding. If it is rewritten, the expected number of matches in its file
must be updated. `examine`, `look` and `decide` return findings; `run_rule`, `check_guards` and
`decisions` raise UserError instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.importer.engine import Decision, Resolved
from tools.importer.errors import UserError
from tools.importer.rewrites.edit import rewrite_file, rewritten_call
from tools.importer.rewrites.facts import Modules
from tools.importer.rewrites.finding import TABLE, Finding, refuse
from tools.importer.rewrites.reach import Reached, reach
from tools.importer.rewrites.rule import Kept, Rule
from tools.importer.rewrites.sites import Site
from tools.importer.rewrites.torch_rules import RULES
from tools.importer.series import Patch, Series
from tools.importer.snapshot import Blob, OverlaySnapshot, Snapshot

HEADER = "Rewrite"
_RULES_FILE = "tools/importer/rewrites/torch_rules.py"


@dataclass(frozen=True)
class Rewritten:
    """The result of applying a rule. `files` are the files that it changed.

    `sites` are the calls that it rewrote, and `kept` the ones that it exempted. `unread` names the
    files that could not be parsed.
    """

    rule: Rule
    files: Mapping[str, Blob]
    sites: tuple[Site, ...]
    kept: Mapping[Kept, tuple[Site, ...]]
    unread: tuple[str, ...]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Guarded:
    """The findings in a patched tree. `unread` files use `__file__` but could not be parsed."""

    findings: tuple[Finding, ...]
    unread: tuple[str, ...]


def regenerate(
    rule_name: str,
    snapshot: Snapshot,
    label: str,
    *,
    rules: Sequence[Rule] = RULES,
    modules: Modules | None = None,
) -> dict[str, Blob]:
    """Return the files that the rule changes. Raises UserError in the same cases as `run_rule`."""
    return dict(run_rule(find_rule(rule_name, rules), snapshot, label, modules=modules).files)


def run_rule(
    rule: Rule, snapshot: Snapshot, label: str, *, modules: Modules | None = None
) -> Rewritten:
    """Rewrite a tree as `examine` does. Raises UserError if there are findings."""
    done = examine(rule, snapshot, label, modules=modules)
    refuse(done.findings, label)
    return done


def examine(
    rule: Rule, snapshot: Snapshot, label: str, *, modules: Modules | None = None
) -> Rewritten:
    """Rewrite the calls in a tree that match the rule.

    The findings are the files with an unexpected number of matches, and the remaining calls that
    the rule should cover but neither rewrites nor exempts.
    """
    modules = Modules() if modules is None else modules
    files = _files(rule, snapshot)
    reached = reach(files, modules)
    sites = reached.sites(rule.guarded)
    kept, open_sites = _sort_out(rule, sites)
    edits = [(site, rewritten_call(rule, site.text)) for site in open_sites if rule.operations]
    matched = [(site, text) for site, text in edits if text is not None]
    findings = _miscounted(rule, [site for site, _ in matched], snapshot, label)

    changed: dict[str, Blob] = {}
    for path in sorted({site.path for site, _ in matched}):
        blob = snapshot.read(path)
        module = modules.get(path, files[path])
        assert blob is not None
        assert module is not None
        here = [(site, text) for site, text in matched if site.path == path]
        data = rewrite_file(blob.data, module, here, rule.target)
        if data is None:
            findings += _hidden(rule, [site for site, _ in here])
        else:
            changed[path] = Blob(data, blob.mode)
    after = {path: blob.data for path, blob in changed.items()}
    remaining = reach({**files, **after}, modules).sites(rule.guarded) if changed else sites
    known = {(each.path, each.function) for each in findings}
    findings += [
        each
        for each in _unhandled(rule, _sort_out(rule, remaining)[1])
        if (each.path, each.function) not in known
    ]
    return Rewritten(
        rule, changed, tuple(site for site, _ in matched), kept, reached.unread, tuple(findings)
    )


def check_guards(
    snapshot: Snapshot, label: str, *, rules: Sequence[Rule] = RULES, modules: Modules | None = None
) -> tuple[str, ...]:
    """Check a fully patched tree as `look` does. Raises UserError if there are findings.

    Returns the files that use `__file__` but could not be parsed. If the same cache `modules` was
    passed to `decisions` before, only the files that the patches change are parsed.
    """
    guarded = look(snapshot, rules=rules, modules=modules)
    refuse(guarded.findings, label)
    return guarded.unread


def look(
    snapshot: Snapshot, *, rules: Sequence[Rule] = RULES, modules: Modules | None = None
) -> Guarded:
    """Check that a fully patched tree has no calls that the rules forbid.

    The findings are the calls to any rule's `guarded` names that use a path computed from
    `__file__` and that the rule does not exempt.
    """
    modules = Modules() if modules is None else modules
    trees: dict[tuple[str, ...], Reached] = {}
    findings: list[Finding] = []
    for rule in rules:
        scope = (*rule.scope, "", *rule.outside)
        if scope not in trees:
            trees[scope] = reach(_files(rule, snapshot), modules)
        sites = trees[scope].sites(rule.guarded)
        findings += _unhandled(rule, _sort_out(rule, sites)[1])
    unread = {path for reached in trees.values() for path in reached.unread}
    return Guarded(tuple(findings), tuple(sorted(unread)))


def decisions(
    series: Series,
    snapshot: Snapshot,
    label: str,
    *,
    rules: Sequence[Rule] = RULES,
    modules: Modules | None = None,
) -> dict[str, Decision]:
    """Return each generated patch's rewritten files, as `decide` does.

    Raises UserError if there are findings.
    """
    decided, findings = decide(series, snapshot, label, rules=rules, modules=modules)
    refuse(findings, label)
    return decided


def decide(
    series: Series,
    snapshot: Snapshot,
    label: str,
    *,
    rules: Sequence[Rule] = RULES,
    modules: Modules | None = None,
) -> tuple[dict[str, Decision], tuple[Finding, ...]]:
    """Return each generated patch's rewritten files, for rebasing `series` onto `snapshot`.

    If a generated patch no longer changes a file, upstream's content is returned for it.
    """
    decided: dict[str, Decision] = {}
    findings: list[Finding] = []
    tree = snapshot
    for patch in generated(series):
        files: dict[str, Blob | None] = {diff.path: tree.read(diff.path) for diff in patch.files}
        done = examine(find_rule(patch.header[HEADER], rules), tree, label, modules=modules)
        files |= done.files
        findings += done.findings
        tree = OverlaySnapshot(tree, files)
        decided[patch.name] = Resolved(files)
    return decided, tuple(findings)


def generated(series: Series) -> list[Patch]:
    """Return the generated patches. Raises UserError if one follows a hand-written patch."""
    patches = [patch for patch in series.patches if HEADER in patch.header]
    for expected, patch in zip(series.patches, patches, strict=False):
        if expected is not patch:
            raise UserError(
                f"{series.root / 'series'}:{patch.line}: {patch.name} is generated by a rewrite from "
                f"upstream's own files, but follows {expected.name}. Move its line up"
            )
    return patches


def find_rule(name: str, rules: Sequence[Rule] = RULES) -> Rule:
    """Return the rule called `name`. Raises UserError if there is none."""
    for rule in rules:
        if rule.name == name:
            return rule
    known = ", ".join(rule.name for rule in rules)
    raise UserError(f"{_RULES_FILE}: no rewrite '{name}'. Name one of: {known}")


def _files(rule: Rule, snapshot: Snapshot) -> dict[str, bytes]:
    blobs = {path: snapshot.read(path) for path in sorted(snapshot.paths()) if rule.covers(path)}
    return {path: blob.data for path, blob in blobs.items() if blob and blob.mode != "120000"}


def _sort_out(rule: Rule, sites: Sequence[Site]) -> tuple[dict[Kept, tuple[Site, ...]], list[Site]]:
    """Separate the calls that the rule exempts from the others.

    If a function has more calls than its exemption allows, none of them is exempt.
    """
    kept = {}
    taken: set[Site] = set()
    for each in rule.kept:
        here = [s for s in sites if (s.path, s.function) == (each.path, each.function)]
        if 0 < len(here) <= each.most:
            kept[each] = tuple(here)
            taken |= set(here)
    return kept, [site for site in sites if site not in taken]


def _miscounted(rule: Rule, sites: Sequence[Site], snapshot: Snapshot, label: str) -> list[Finding]:
    want = {p: n for p, n in rule.matches_in(label).items() if n and snapshot.carries(p)}
    counts = Counter(site.path for site in sites)
    step = (
        f"Look whether each should be rewritten, then give {label} its numbers in {TABLE}, or list it "
        "there as kept"
    )
    out = []
    for path in sorted(
        path for path in {*want, *counts} if want.get(path, 0) != counts.get(path, 0)
    ):
        here = tuple(site for site in sites if site.path == path)
        fault = f"{path} has {len(here)}, expected {want.get(path, 0)}"
        fault += "".join(f" [{site}]" for site in here)
        out.append(Finding(rule.name, path, "", here, fault, step))
    return out


def _hidden(rule: Rule, sites: Sequence[Site]) -> list[Finding]:
    root = rule.target.split(".")[0]
    step = f"Patch it by hand and list it as kept in {TABLE}"
    return _by_function(rule, sites, f"'{root}' is another variable in", step)


def _unhandled(rule: Rule, sites: Sequence[Site]) -> list[Finding]:
    step = f"Patch it, teach the rule to, or list it as kept, with the reason, in {TABLE}"
    return _by_function(rule, sites, "left on a path from __file__", step)


def _by_function(rule: Rule, sites: Sequence[Site], fault: str, step: str) -> list[Finding]:
    places: dict[tuple[str, str], list[Site]] = {}
    for site in sites:
        places.setdefault((site.path, site.function), []).append(site)
    return [
        Finding(
            rule.name,
            path,
            function,
            tuple(here),
            f"{len(here)} {fault}: {'; '.join(map(str, here))}",
            step,
        )
        for (path, function), here in places.items()
    ]
