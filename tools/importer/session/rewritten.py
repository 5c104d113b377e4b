# SPDX-License-Identifier: Apache-2.0
"""Patches that a rule makes: with a header `Rewrite: <rule>` they are made anew, never merged.

What a rule finds and does not know is a stop: `rewrites.txt`, the data of the rules beside the series,
is laid out with a line proposed for each finding, and what the person makes of it is published with
the series.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from tools.importer.engine import Decision, FileResult, Outcome, PatchResult, Resolved
from tools.importer.errors import UserError
from tools.importer.project import Project
from tools.importer.series import Patch, Series
from tools.importer.snapshot import Blob, OverlaySnapshot, Snapshot

if TYPE_CHECKING:
    from tools.importer.rewrites import Finding, Modules, Rule

HEADER = "Rewrite"
KNOWN_CALLS = "rewrites.txt"


def read_known_calls(project: Project) -> bytes:
    """Return the data of the project's rules; empty where there is none."""
    file = project.series / KNOWN_CALLS
    return file.read_bytes() if file.exists() else b""


def settled_calls(
    decisions: Mapping[str, Decision], known: bytes
) -> tuple[bytes, dict[str, Decision]]:
    """Return the data of the rules as a person settled it, and the decisions on patches."""
    others = dict(decisions)
    settled = others.pop(KNOWN_CALLS, None)
    if settled is None:
        return known, others
    blob = settled.files.get(KNOWN_CALLS) if isinstance(settled, Resolved) else None
    if blob is None or not isinstance(settled, Resolved) or len(settled.files) != 1:
        raise UserError(
            f"{KNOWN_CALLS}: it alone is settled at this stop, and has to be there. Restore it, or "
            "`import.py abort`; patch other files once the import is through, with `import.py new`"
        )
    return blob.data, others


class Rewrites:
    """The rules on one new tree: what they learn of its files to decide serves to check as well."""

    def __init__(self, new: Snapshot, known: bytes = b"") -> None:
        self.unread: tuple[str, ...] = ()  # files that the rules should know and could not read
        self.known = known
        self._new = new
        self._modules: Modules | None = None
        self._rules: Sequence[Rule] | None = None

    def decide(self, series: Series) -> tuple[dict[str, Decision], tuple[Finding, ...]]:
        """Return what the rules make of the tree, as decisions on their patches, and findings.

        Raises UserError where the data of the rules is wrong.
        """
        if not _has_rewrites(series):
            return {}, ()
        # Late: rules need libcst, and many series have none.
        from tools.importer import rewrites

        rules, modules = self._loaded()
        return rewrites.decide(series, self._new, self._new.label, rules=rules, modules=modules)

    def look(
        self,
        series: Series,
        files: Mapping[str, Blob | None],
        *,
        unsettled: Collection[str] = (),
    ) -> tuple[Finding, ...]:
        """Return what escapes the rules in the tree with `files` of the patches in it.

        Of `unsettled` files, which wait for a person, nothing is said yet.
        """
        if not _has_rewrites(series):
            return ()
        from tools.importer import rewrites

        rules, modules = self._loaded()
        seen = rewrites.look(OverlaySnapshot(self._new, files), rules=rules, modules=modules)
        self.unread = seen.unread
        return tuple(each for each in seen.findings if each.path not in unsettled)

    def check(self, series: Series, files: Mapping[str, Blob | None]) -> None:
        """Raise UserError where the tree, with `files` of all patches in it, escapes a rule."""
        findings = self.look(series, files)
        if findings:
            from tools.importer import rewrites

            rewrites.refuse(findings, self._new.label)

    def stop(self, findings: Sequence[Finding]) -> PatchResult:
        """Return the stop that findings are: the data of the rules, with a line for each."""
        from tools.importer import rewrites

        count = len(findings)
        note = f"{count} {'place' if count == 1 else 'places'} that the rules do not know"
        text = rewrites.with_proposals(self.known, findings, self._new.label)
        told = "; ".join(f"{each.rule}: {each.what}" for each in findings)
        file = FileResult(
            KNOWN_CALLS, KNOWN_CALLS, Outcome.CONFLICT, Blob(self.known), Blob(text), told
        )
        return PatchResult(_DATA, Outcome.CONFLICT, (file,), None, note)

    def _loaded(self) -> tuple[Sequence[Rule], Modules]:
        from tools.importer import rewrites

        self._modules = self._modules or rewrites.Modules()
        self._rules = self._rules or rewrites.with_known_calls(
            rewrites.RULES, self.known, KNOWN_CALLS
        )
        return self._rules, self._modules


def decide_rewrites(series: Series, new: Snapshot, known: bytes = b"") -> dict[str, Decision]:
    """Return what the rules make of the new tree, as decisions on their patches. Raises UserError."""
    made, findings = Rewrites(new, known).decide(series)
    if findings:
        from tools.importer import rewrites

        rewrites.refuse(findings, new.label)
    return made


def check_rewrites(
    series: Series, new: Snapshot, files: Mapping[str, Blob | None], known: bytes = b""
) -> None:
    """Raise UserError where the new tree, with `files` of all patches in it, escapes a rule."""
    Rewrites(new, known).check(series, files)


# What stands for the rules' data in a stop, which is otherwise a patch's.
_DATA = Patch(
    KNOWN_CALLS,
    0,
    {
        "Subject": "Calls that the rules of tools/importer/rewrites do not know",
        "Reason": "each stays, with a reason, or is patched",
        "Upstream": "its files are as upstream has them",
    },
    (),
    "",
)


def _has_rewrites(series: Series) -> bool:
    return any(HEADER in patch.header for patch in series.patches)
