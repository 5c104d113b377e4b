# SPDX-License-Identifier: Apache-2.0
"""Reports the most recent collectives of this process in the format of torch's flight recorder.

If a process group fails, each of its ranks writes a file. To compare the files of all ranks, run
`python -m torch.distributed.flight_recorder.fr_trace DIRECTORY --prefix NAME_`.

TORCH_FR_DUMP_TEMP_FILE sets the path of the file; the rank is appended to it. By default, the file
is in ~/.cache/torch. TORCH_FR_BUFFER_SIZE sets how many of the most recent records are kept. The
default is 2,000, and 0 turns the recorder off.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch_google.tpu import _C

# As of this version of the format, fields that only other backends use are optional.
_VERSION = "2.10"
_PATHS = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
# torch's tools treat adjacent records with the same sequence number as one coalesced operation, so
# point-to-point messages get sequence numbers that no collective uses.
_FIRST_MESSAGE = 1 << 32
# Maps operations to their names in torch's tools, if these differ.
_NAMES = {
    "all_gather_into_tensor": "_all_gather_base",
    "reduce_scatter_tensor": "_reduce_scatter_base",
    "all_reduce_coalesced": "allreduce_coalesced",
    "all_gather_coalesced": "all_gather",
    "all_to_all_single": "all_to_all",
}


def trace() -> dict[str, Any]:
    """Return the records of this process in the format that torch's tools read."""
    records, groups = _C.flight_records()
    ranks = {group: sorted(members) for group, members in groups.items()}
    return {
        "version": _VERSION,
        "comm_lib_version": "",
        "pg_config": {
            group: {"name": group, "desc": group, "ranks": json.dumps(members)}
            for group, members in ranks.items()
        },
        "pg_status": {},
        "entries": [_entry(record, list(ranks)) for record in records],
    }


def dump_flight_record(rank: int, environ: Mapping[str, str] = os.environ) -> str:
    """Write this rank's records and return the path, or return "" if there are no records.

    The file is replaced atomically, and only its owner can read it. Raises OSError if the file
    cannot be written.
    """
    content = trace()
    if not content["entries"]:
        return ""
    prefix = next((environ[name] for name in _PATHS if environ.get(name)), None)
    if prefix is None:
        cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        prefix = str(cache / "torch" / "comm_lib_trace_rank_")
    path = Path(f"{prefix}{rank}")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(partial, flags, 0o600), "wb") as file:
        pickle.dump(content, file)
    partial.replace(path)
    return str(path)


def _entry(record: dict[str, Any], groups: list[str]) -> dict[str, Any]:
    begun = "started" if record["started"] else "scheduled"
    return {
        "record_id": record["id"],
        "pg_id": groups.index(record["group"]),
        "process_group": (record["group"], record["description"]),
        "collective_seq_id": 0 if record["is_message"] else record["sequence"] + 1,
        "p2p_seq_id": _FIRST_MESSAGE + record["id"] if record["is_message"] else 0,
        "op_id": record["id"],
        "profiling_name": f"gloo:{_operation(record)}",
        "time_created_ns": record["created"],
        "input_sizes": record["input_sizes"],
        "input_dtypes": record["input_dtypes"],
        "output_sizes": record["output_sizes"],
        "output_dtypes": record["output_dtypes"],
        "state": "completed" if record["completed"] else begun,
        "time_discovered_started_ns": record["started"] or None,
        "time_discovered_completed_ns": record["completed"] or None,
        "retired": bool(record["completed"] or record["failed"]),
        "timeout_ms": record["timeout"],
        "is_p2p": record["is_message"],
        "frames": [
            {"name": code.co_name, "filename": code.co_filename, "line": line}
            for code, line in record["frames"]
        ],
    }


def _operation(record: dict[str, Any]) -> str:
    name = record["name"]
    if name == "send":
        return f"send {record['rank']}->{record['peer']}"
    if name == "recv":
        return f"recv {record['rank']}<-{record['peer']}"
    return _NAMES.get(name, name)
