# SPDX-License-Identifier: Apache-2.0
"""Regenerate the patches with a `Rewrite: <rule>` header, instead of merging them.

The import stops if it finds calls that no rewrite rule covers. It then writes `rewrites.txt`, the
rules' data file, with a proposed line for each function or file that contains such calls. The user
edits the file, and the import writes it to the workspace with the patch series.
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
    """Return the content of the project's rewrites.txt; empty if the file does not exist."""
    file = project.series / KNOWN_CALLS
    return file.read_bytes() if file.exists() else b""


def settled_calls(
    decisions: Mapping[str, Decision], known: bytes
) -> tuple[bytes, dict[str, Decision]]:
    """Return the content of rewrites.txt as resolved by the user, and all other decisions.

    The content is `known` if the user has not resolved the file. Raises UserError if the file is
    missing, or if the user also resolved a different file.
    """
    others = dict(decisions)
    settled = others.pop(KNOWN_CALLS, None)
    if settled is None:
        return known, others
    blob = settled.files.get(KNOWN_CALLS) if isinstance(settled, Resolved) else None
    if blob is None or not isinstance(settled, Resolved) or len(settled.files) != 1:
        raise UserError(
            f"{KNOWN_CALLS}: the only file to resolve now, and it must exist. Restore it, or "
            "`import.py abort`; patch other files once the import is through, with `import.py new`"
        )
    return blob.data, others


class Rewrites:
    """The rewrite rules, applied to one new tree. All methods share a cache of parsed files."""

    def __init__(self, new: Snapshot, known: bytes = b"") -> None:
        self.unread: tuple[str, ...] = ()  # files that the rules need but could not read
        self.known = known
        self._new = new
        self._modules: Modules | None = None
        self._rules: Sequence[Rule] | None = None

    def decide(self, series: Series) -> tuple[dict[str, Decision], tuple[Finding, ...]]:
        """Return the regenerated patches' files, and the calls that no rewrite rule covers.

        Raises UserError if rewrites.txt is invalid.
        """
        if not _has_rewrites(series):
            return {}, ()
        # Imported lazily, because rewrite rules need libcst, and many patch series have no rules.
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
        """Return the calls that no rewrite rule covers, in the new tree overlaid with `files`.

        Calls in `unsettled`, the files that the user has not resolved yet, are omitted.
        """
        if not _has_rewrites(series):
            return ()
        from tools.importer import rewrites

        rules, modules = self._loaded()
        guarded = rewrites.look(OverlaySnapshot(self._new, files), rules=rules, modules=modules)
        self.unread = guarded.unread
        return tuple(each for each in guarded.findings if each.path not in unsettled)

    def check(self, series: Series, files: Mapping[str, Blob | None]) -> None:
        """Raise UserError if the new tree with `files` has calls that no rewrite rule covers."""
        findings = self.look(series, files)
        if findings:
            from tools.importer import rewrites

            rewrites.refuse(findings, self._new.label)

    def stop(self, findings: Sequence[Finding]) -> PatchResult:
        """Return a conflict in rewrites.txt, with a proposed line for each of `findings`."""
        from tools.importer import rewrites

        count = len(findings)
        note = f"{count} {'place' if count == 1 else 'places'} that the rules do not know"
        text = rewrites.with_proposals(self.known, findings, self._new.label)
        summary = "; ".join(f"{each.rule}: {each.what}" for each in findings)
        file = FileResult(
            KNOWN_CALLS, KNOWN_CALLS, Outcome.CONFLICT, Blob(self.known), Blob(text), summary
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
    """Return the regenerated patches' files.

    Raises UserError for calls that no rewrite rule covers.
    """
    decisions, findings = Rewrites(new, known).decide(series)
    if findings:
        from tools.importer import rewrites

        rewrites.refuse(findings, new.label)
    return decisions


def check_rewrites(
    series: Series, new: Snapshot, files: Mapping[str, Blob | None], known: bytes = b""
) -> None:
    """Raise UserError if the new tree with `files` has calls that no rewrite rule covers."""
    Rewrites(new, known).check(series, files)


# A fake patch that represents rewrites.txt, because a PatchResult needs a patch.
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
