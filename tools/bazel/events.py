# SPDX-License-Identifier: Apache-2.0
"""Count a build's actions by strategy, using the file that `--build_event_json_file` writes."""

from __future__ import annotations

import json
from pathlib import Path

# Rows of the summary that are not strategies: Bazel's internal actions and the total.
_NO_ACTION = ("internal", "total")


def runners(events: Path) -> dict[str, int]:
    """Return the number of actions that ran with each of Bazel's strategies."""
    for line in events.read_text().splitlines():
        summary = json.loads(line).get("buildMetrics", {}).get("actionSummary", {})
        if "runnerCount" in summary:
            return {
                row["name"]: int(row["count"])
                for row in summary["runnerCount"]
                if row["name"] not in _NO_ACTION
            }
    return {}
