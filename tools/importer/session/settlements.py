# SPDX-License-Identifier: Apache-2.0
"""Store resolved conflicts in patches/<project>/settled, so that each is resolved only once.

Each file stores one resolution, called a settlement. The import that needed it writes the file
together with the patch series. Once it is committed, all users of the repository share it. A file
contains the conflict's hash and the user's lines, not the conflicting text itself.
"""

from __future__ import annotations

import base64
import difflib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tools.importer.engine import PatchResult, Settlement
from tools.importer.errors import UserError
from tools.importer.project import Project

DIRECTORY = "settled"
_ID = 12  # the number of hex digits of the conflict's hash in a file name


@dataclass(frozen=True)
class Remembered:
    """A stored conflict resolution, from a rebase of `patch` from the release `old` onto `new`."""

    id: str
    file: Path
    patch: str
    old: str
    new: str
    settlement: Settlement


def read_settlements(project: Project) -> dict[str, Remembered]:
    """Return all stored conflict resolutions, keyed by conflict hash, in file name order."""
    out: dict[str, Remembered] = {}
    for file in sorted((project.series / DIRECTORY).glob("*.json")):
        each = _read(project, file)
        out[each.settlement.key] = each
    return out


def settlements_of(project: Project) -> dict[str, Settlement]:
    """Return the conflict resolutions that an import may reuse, keyed by conflict hash.

    Raises UserError if a file is malformed.
    """
    return {key: each.settlement for key, each in read_settlements(project).items()}


def settlement_files(
    project: Project,
    results: Sequence[PatchResult],
    decided: Collection[str],
    *,
    old: str,
    new: str,
) -> dict[str, bytes]:
    """Return files with the conflict resolutions of the patches in `decided`, keyed by path."""
    out: dict[str, bytes] = {}
    for result in results:
        settlement = result.settlement
        if settlement is None or settlement.source or result.patch.name not in decided:
            continue
        data = {
            "conflict": settlement.key,
            "patch": result.patch.name,
            "from": old,
            "to": new,
            "files": [
                {"path": path, "answers": [_data(answer) for answer in answers]}
                for path, answers in zip(settlement.paths, settlement.answers, strict=True)
            ],
        }
        file = project.series / DIRECTORY / f"{settlement.key[:_ID]}.json"
        path = file.relative_to(project.workspace).as_posix()
        out[path] = (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode()
    return out


def find_settlements(project: Project, name: str) -> list[Remembered]:
    """Return the stored resolution with the id `name`, or all resolutions of the patch `name`.

    Raises UserError if there is none.
    """
    known = list(read_settlements(project).values())
    names = {name, f"{name}.patch"}
    matches = [each for each in known if each.id == name or each.patch in names]
    if not matches:
        words = [word for each in known for word in (each.id, each.patch.removesuffix(".patch"))]
        near = difflib.get_close_matches(name, words, n=1)
        hint = f" Did you mean {near[0]}?" if near else " `import.py settled` lists them"
        raise UserError(f"{project.series / DIRECTORY}: no settlement '{name}'.{hint}")
    return matches


def _read(project: Project, file: Path) -> Remembered:
    shown = file.relative_to(project.workspace).as_posix()
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        settlement = Settlement(
            str(data["conflict"]),
            tuple(str(row["path"]) for row in data["files"]),
            tuple(tuple(_text(answer) for answer in row["answers"]) for row in data["files"]),
        )
        each = Remembered(
            file.stem, file, str(data["patch"]), str(data["from"]), str(data["to"]), settlement
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{shown}: {error!r}. Restore it from version control, or delete it"
        ) from None
    source = f"{each.patch} in {each.old} -> {each.new}, {shown}"
    return replace(each, settlement=replace(settlement, source=source))


def _data(answer: bytes) -> object:
    """Return UTF-8 text as a list of lines, which is easy to review, and other bytes as base64."""
    try:
        text = answer.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(answer).decode("ascii")}
    return [f"{line}\n" for line in text.split("\n")[:-1]] + [text.split("\n")[-1]] * (
        not text.endswith("\n") and bool(text)
    )


def _text(data: object) -> bytes:
    if isinstance(data, dict):
        return base64.b64decode(data["base64"], validate=True)
    if not isinstance(data, list):
        raise TypeError("an answer is a list of lines")
    return "".join(data).encode()
