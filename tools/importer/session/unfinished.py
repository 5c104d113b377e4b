# SPDX-License-Identifier: Apache-2.0
"""The state of a command that waits for the user: its inputs and the decisions so far.

No computed results are stored. The command is replayed from its inputs, which takes less than a
second and gives the same bytes. A decision is one small file that is written atomically, so a kill
loses no decision.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.importer.engine.outcome import Decision, Resolved, Skip
from tools.importer.errors import UserError
from tools.importer.session.journal import sync_directory, write_durably
from tools.importer.snapshot import Blob

STATE_FILE = "state.json"

# The state of `import.py edit`: it waits for `refresh`, without an undecided patch.
EDITING = "edit"
DESK = "edit"
_FORMAT = 1


@dataclass(frozen=True)
class StopFile:
    """A file that the user must resolve, as written to `.import/conflict`.

    `digest` is its original sha256; None if no file was written. `marks` lists upstream's and the
    patch's own lines that look like conflict markers.
    """

    digest: str | None
    mode: str
    note: str
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stop:
    """The patch that waits for a decision, and its files by their path in the new tree."""

    patch: str
    outcome: str
    files: Mapping[str, StopFile]


@dataclass(frozen=True)
class Unfinished:
    """A stopped command's state. `command` is its name; `inputs` are needed to replay it."""

    command: str
    project: str
    inputs: Mapping[str, object]
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    stop: Stop | None = None


def read_unfinished(state: Path) -> Unfinished | None:
    """Return the unfinished command, or None. Raises UserError if its file is unusable."""
    file = state / STATE_FILE
    try:
        data = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UserError(f"{file}: damaged ({error}). `import.py abort` starts over") from None
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise UserError(
            f"{file}: written by another version of import.py. Finish it with that one, or "
            "`import.py abort`"
        )
    stop = data["stop"]
    return Unfinished(
        data["command"],
        data["project"],
        data["inputs"],
        {name: _decision(value) for name, value in data["decisions"].items()},
        None
        if stop is None
        else Stop(
            stop["patch"],
            stop["outcome"],
            {
                path: StopFile(row["digest"], row["mode"], row["note"], tuple(row["marks"]))
                for path, row in stop["files"].items()
            },
        ),
    )


def write_unfinished(state: Path, unfinished: Unfinished) -> None:
    """Write the state atomically."""
    stop = unfinished.stop
    data = {
        "format": _FORMAT,
        "command": unfinished.command,
        "project": unfinished.project,
        "inputs": dict(unfinished.inputs),
        "decisions": {name: _data(value) for name, value in unfinished.decisions.items()},
        "stop": None
        if stop is None
        else {
            "patch": stop.patch,
            "outcome": stop.outcome,
            "files": {path: vars(file) for path, file in stop.files.items()},
        },
    }
    replace_file(state / STATE_FILE, (json.dumps(data, indent=1) + "\n").encode())


def replace_file(file: Path, data: bytes) -> None:
    """Write one file of the state directory: to a temporary name, synced, then renamed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(aside_of(file.name))
    aside.unlink(missing_ok=True)
    write_durably(aside, data)
    os.replace(aside, file)
    sync_directory(file.parent)


def aside_of(name: str) -> str:
    """Return the temporary name of a file that is about to be renamed."""
    return f"{name}.new"


def _data(decision: Decision) -> object:
    if isinstance(decision, Skip):
        return "skip"
    return {
        path: None
        if blob is None
        else {"mode": blob.mode, "base64": base64.b64encode(blob.data).decode("ascii")}
        for path, blob in decision.files.items()
    }


def _decision(value: object) -> Decision:
    if value == "skip":
        return Skip()
    assert isinstance(value, dict)
    return Resolved(
        {
            path: None if row is None else Blob(base64.b64decode(row["base64"]), row["mode"])
            for path, row in value.items()
        }
    )
