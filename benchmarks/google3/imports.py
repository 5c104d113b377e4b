# SPDX-License-Identifier: Apache-2.0
"""What `import torch` costs more with torch_google plugged in, and imported too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.google3.row import Row, Sizes, Work

# Both processes look for entry points and find torch's own; one finds the libraries' beside them,
# whether or not they are installed here. The device has its own, and figures of its own.
_ENTRY_POINTS = """
from importlib import metadata
found = metadata.entry_points
def entry_points(**query):
    others = [entry for entry in found(**query) if not entry.value.startswith("torch_google.")]
    return others + [entry for entry in OURS if entry.group == query.get("group")]
metadata.entry_points = entry_points
OURS = []
"""
PLAIN = _ENTRY_POINTS + "import torch"
OURS = f"""{_ENTRY_POINTS}
OURS.append(metadata.EntryPoint("torch_google", "torch_google.plug:plug", "torch.seam"))
OURS.append(metadata.EntryPoint("torch_google", "torch_google.plug:loaded", "torch.backends"))
import torch, torch_google
"""


def rows(sizes: Sizes) -> list[Row]:
    """Return the one row; it has no size."""
    del sizes
    return [
        Row(
            "import torch, plugged, and torch_google, beside import torch",
            _fresh(PLAIN),
            _fresh(OURS),
            None,
            most_added=0.030,
        )
    ]


def _fresh(program: str) -> Work:
    def work(directory: Path) -> None:
        subprocess.run([sys.executable, "-c", program], check=True)

    return work
