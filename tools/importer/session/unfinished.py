# SPDX-License-Identifier: Apache-2.0
"""The state of a command that waits for the user: its inputs and the user's decisions so far.

Computed results are not stored: to continue, the command is replayed from its inputs, which takes
less than a second and produces the same bytes. The state is one small file and is replaced
atomically, so killing the process loses no conflict resolution.
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

# The command name of an unfinished `import.py edit`. Unlike other unfinished commands, it has not
# stopped at a conflict, but waits for the user to edit the patch and run `refresh`.
EDITING = "edit"
DESK = "edit"
_FORMAT = 1


@dataclass(frozen=True)
class StopFile:
    """A file that the user must resolve, as written to `.import/conflict`.

    `digest` is the sha256 of the file as written; None if no file was written. `marks` lists the
    lines of upstream and of the patch that look like conflict markers but are not.
    """

    digest: str | None
    mode: str
    note: str
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stop:
    """The patch that the command stopped at, and the files to resolve, keyed by new path."""

    patch: str
    outcome: str
    files: Mapping[str, StopFile]


@dataclass(frozen=True)
class Unfinished:
    """The state of a stopped command. `command` and `inputs` are enough to replay it."""

    command: str
    project: str
    inputs: Mapping[str, object]
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    stop: Stop | None = None


def read_unfinished(state: Path) -> Unfinished | None:
    """Return the unfinished command's state, or None if every command has finished.

    Raises UserError if state.json is invalid.
    """
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
    """Replace state.json atomically."""
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
    """Write a file of the state directory atomically, through a synced temporary file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(aside_of(file.name))
    aside.unlink(missing_ok=True)
    write_durably(aside, data)
    os.replace(aside, file)
    sync_directory(file.parent)


def aside_of(name: str) -> str:
    """Return the temporary name that a file has until it is renamed to `name`."""
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
