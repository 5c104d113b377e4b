# SPDX-License-Identifier: Apache-2.0
"""What a build did, by the file that `--build_event_json_file` names."""

from __future__ import annotations

import json
from pathlib import Path

# In Bazel's own process, and the sum of all.
_NO_ACTION = ("internal", "total")


def runners(events: Path) -> dict[str, int]:
    """How many actions each way of running them had, by Bazel's names of these; empty if none ran."""
    for line in events.read_text().splitlines():
        summary = json.loads(line).get("buildMetrics", {}).get("actionSummary", {})
        if "runnerCount" in summary:
            return {
                row["name"]: int(row["count"])
                for row in summary["runnerCount"]
                if row["name"] not in _NO_ACTION
            }
    return {}
