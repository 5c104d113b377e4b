# SPDX-License-Identifier: Apache-2.0
"""An imported project's settings: its pin, patches and metadata.

They are in third_party/<name>/import.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.importer.errors import UserError

STATE = ".import"


@dataclass(frozen=True)
class Project:
    """The files of one project, as absolute paths. `origins` has the settings by origin kind."""

    workspace: Path
    name: str
    pin: Path
    series: Path
    metadata: Path
    origins: Mapping[str, Mapping[str, str]]

    @property
    def state(self) -> Path:
        """The directory for an unfinished command's state: git-ignored, same file system."""
        return self.workspace / STATE

    def series_of(self, label: str) -> Path:
        """Return the series directory of one upstream release."""
        return self.series / label


def load_project(workspace: Path, name: str = "torch") -> Project:
    """Read third_party/`name`/import.json. Raises UserError."""
    file = workspace / "third_party" / name / "import.json"
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        return Project(
            workspace,
            data["name"],
            workspace / data["pin"],
            workspace / data["series"],
            workspace / data["metadata"],
            data["origins"],
        )
    except FileNotFoundError:
        known = sorted(path.parent.name for path in workspace.glob("third_party/*/import.json"))
        raise UserError(
            f"{file}: no such file. Projects that can be imported here: {', '.join(known) or 'none'}"
        ) from None
    except (json.JSONDecodeError, KeyError) as error:
        raise UserError(f"{file}: {error!r}. See tools/importer/README.md for its keys") from None
