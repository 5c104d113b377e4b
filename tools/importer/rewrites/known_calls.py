# SPDX-License-Identifier: Apache-2.0
"""Reviewed calls, as data: `rewrites.txt` next to the patches has a line per function or file.

    RULE keep PATH::FUNCTION [xN] -- REASON     up to N calls (default: 1) in the function stay
                                                unchanged
    RULE rewrite RELEASE PATH xN                from that release on, N calls in the file are
                                                rewritten

Empty lines and lines that begin with `#` are ignored.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from tools.importer.errors import UserError
from tools.importer.rewrites.finding import Finding
from tools.importer.rewrites.rule import Kept, Rule

FILE = "rewrites.txt"

_KEEP = re.compile(
    r"(?P<rule>\S+) keep (?P<path>.+?)::(?P<function>\S+)(?: x(?P<most>[1-9]\d*))? --(?P<reason>.*)"
)
_REWRITE = re.compile(r"(?P<rule>\S+) rewrite (?P<release>\S+) (?P<path>.+) x(?P<number>\d+)")
_KEPT_HINT = "to keep it, write the reason behind -- and delete the marker lines"
_REWRITE_HINT = "to rewrite them all, delete the marker lines; else `keep` each with a reason"


def with_known_calls(rules: Sequence[Rule], data: bytes, where: str) -> tuple[Rule, ...]:
    """Return the rules, extended by the exemptions and counts in `data`, the text of rewrites.txt.

    Errors refer to the file as `where`.
    """
    kept: dict[str, list[Kept]] = {rule.name: list(rule.kept) for rule in rules}
    expected = {
        rule.name: {label: dict(numbers) for label, numbers in rule.expected.items()}
        for rule in rules
    }
    lines: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(_text(data, where).split("\n"), start=1):
        position = f"{where}:{number}"
        if not line.strip() or line.startswith("#"):
            continue
        keep, rewrite = _KEEP.fullmatch(line.rstrip()), _REWRITE.fullmatch(line.rstrip())
        match = keep or rewrite
        if match is None:
            raise UserError(
                f"{position}: '{line[:60]}' is not a valid line. Write `RULE keep PATH::FUNCTION -- REASON` "
                "or `RULE rewrite RELEASE PATH xN`"
            )
        rule = _rule(match["rule"], rules, position)
        if not rule.covers(match["path"]):
            raise UserError(
                f"{position}: '{match['path']}' is outside the rule {rule.name}. Name a file that it covers"
            )
        key = _key(line)
        if key in lines:
            raise UserError(f"{position}: the same as line {lines[key]}. Keep one of them")
        lines[key] = number
        if keep:
            reason = keep["reason"].strip()
            if not reason:
                raise UserError(
                    f"{position}: no reason after `--`. Say why the call works as it is, or delete the line"
                )
            most = int(keep["most"] or 1)
            kept[rule.name].append(Kept(keep["path"], keep["function"], reason, most))
        elif not rule.operations:
            raise UserError(f"{position}: {rule.name} rewrites nothing. Use `keep`")
        else:
            row = expected[rule.name].setdefault(match["release"], {})
            row[match["path"]] = int(match["number"])
    return tuple(
        dataclasses.replace(rule, kept=tuple(kept[rule.name]), expected=expected[rule.name])
        for rule in rules
    )


def with_proposals(data: bytes, findings: Sequence[Finding], label: str) -> bytes:
    """Return the file with a proposed line for each finding, between conflict markers."""
    lines = data.decode("utf-8").split("\n")
    for finding in findings:
        proposal = _proposal(finding, label)
        same = [index for index, line in enumerate(lines) if _key(line) == _key(proposal)]
        if same and finding.function:  # propose the old reason, which may apply to all calls
            proposal += lines[same[0]].partition(" --")[2].rstrip()
        block = [
            f"<<<<<<< {finding.rule}, {label}: {finding.what}",
            proposal,
            f">>>>>>> {_KEPT_HINT if finding.function else _REWRITE_HINT}",
        ]
        word = " ".join(proposal.split(" ")[:2])
        alike = [index for index, line in enumerate(lines) if line.startswith(f"{word} ")]
        if same:
            lines[same[0] : same[0] + 1] = block
        elif alike:
            lines[alike[-1] + 1 : alike[-1] + 1] = block
        else:
            lines[max(len(lines) - 1, 0) : len(lines) - 1] = block
    return "\n".join(lines).encode("utf-8")


def _proposal(finding: Finding, label: str) -> str:
    count = len(finding.sites)
    if finding.function:
        times = f" x{count}" if count > 1 else ""
        return f"{finding.rule} keep {finding.path}::{finding.function}{times} --"
    return f"{finding.rule} rewrite {label} {finding.path} x{count}"


def _key(line: str) -> tuple[str, ...]:
    """Return the key of a line; () for a comment or an invalid line.

    In a valid file, no two lines have the same key.
    """
    keep, rewrite = _KEEP.fullmatch(line.rstrip()), _REWRITE.fullmatch(line.rstrip())
    if keep:
        return (keep["rule"], "keep", keep["path"], keep["function"])
    return (rewrite["rule"], "rewrite", rewrite["release"], rewrite["path"]) if rewrite else ()


def _rule(name: str, rules: Sequence[Rule], position: str) -> Rule:
    for rule in rules:
        if rule.name == name:
            return rule
    known = ", ".join(rule.name for rule in rules)
    raise UserError(f"{position}: no rule '{name}'. Name one of: {known}")


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: not UTF-8 ({error.reason}). Save it as UTF-8") from None
