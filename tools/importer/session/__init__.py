# SPDX-License-Identifier: Apache-2.0
"""The importer's sessions: atomic workspace updates, and commands that wait for user action."""

from tools.importer.session.branches import (
    Last,
    branch_files,
    last_of,
    read_branches,
    superseded_files,
)
from tools.importer.session.build_pin import moved_pin
from tools.importer.session.conflict import Unsettled, read_resolution, unsettled
from tools.importer.session.journal import edited_since, roll_back, undo, undoable
from tools.importer.session.local_edits import check_committed, uncommitted
from tools.importer.session.lock import lock
from tools.importer.session.recovery import pending, recover
from tools.importer.session.reimport import (
    Carried,
    Source,
    current_label,
    directory_changes,
    finish,
    forecast,
    load_source,
    replay,
)
from tools.importer.session.rewritten import (
    KNOWN_CALLS,
    Rewrites,
    check_rewrites,
    decide_rewrites,
    read_known_calls,
    settled_calls,
)
from tools.importer.session.settlements import (
    Remembered,
    find_settlements,
    read_settlements,
    settlement_files,
    settlements_of,
)
from tools.importer.session.stepping import (
    digest_of_header,
    earlier_step,
    edited_in,
    refuse_edited,
    step_back,
)
from tools.importer.session.stopping import (
    SESSION_FILES,
    back_to_desk,
    forget,
    refuse_unfinished,
    require_unfinished,
    stop_at,
    waits_for_files,
)
from tools.importer.session.transaction import Changes, Transaction
from tools.importer.session.unfinished import (
    DESK,
    EDITING,
    Stop,
    StopFile,
    Unfinished,
    read_unfinished,
    write_unfinished,
)
from tools.importer.session.watching import (
    Watched,
    check_watched,
    landed_files,
    with_returned,
)
from tools.importer.tree_pin import pin_bytes

__all__ = [
    "DESK",
    "EDITING",
    "KNOWN_CALLS",
    "SESSION_FILES",
    "Carried",
    "Changes",
    "Last",
    "Remembered",
    "Rewrites",
    "Source",
    "Stop",
    "StopFile",
    "Transaction",
    "Unfinished",
    "Unsettled",
    "Watched",
    "back_to_desk",
    "branch_files",
    "check_committed",
    "check_rewrites",
    "check_watched",
    "current_label",
    "decide_rewrites",
    "digest_of_header",
    "directory_changes",
    "earlier_step",
    "edited_in",
    "edited_since",
    "find_settlements",
    "finish",
    "forecast",
    "forget",
    "landed_files",
    "last_of",
    "load_source",
    "lock",
    "moved_pin",
    "pending",
    "pin_bytes",
    "read_branches",
    "read_known_calls",
    "read_resolution",
    "read_settlements",
    "read_unfinished",
    "recover",
    "refuse_edited",
    "refuse_unfinished",
    "replay",
    "require_unfinished",
    "roll_back",
    "settled_calls",
    "settlement_files",
    "settlements_of",
    "step_back",
    "stop_at",
    "superseded_files",
    "uncommitted",
    "undo",
    "undoable",
    "unsettled",
    "waits_for_files",
    "with_returned",
    "write_unfinished",
]
