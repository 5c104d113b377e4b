# SPDX-License-Identifier: Apache-2.0
"""Measure the time that importing torch_google and its entry points adds to `import torch`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.google3.row import Row, Sizes, Work

# Both programs hide torch_google's installed entry points. This excludes the `tpu` device, which
# benchmarks/tpu_eager measures. OURS adds the entry points of torch_google's libraries again, even
# if they are not installed.
_ENTRY_POINTS = """
from importlib import metadata
find_entry_points = metadata.entry_points
def entry_points(**query):
    entries = find_entry_points(**query)
    others = [entry for entry in entries if not entry.value.startswith("torch_google.")]
    return others + [entry for entry in OURS if entry.group == query.get("group")]
metadata.entry_points = entry_points
OURS = []
"""
PLAIN = _ENTRY_POINTS + "import torch"
OURS = f"""{_ENTRY_POINTS}
OURS.append(metadata.EntryPoint("torch_google", "torch_google.entry_points:install_hooks", "torch.seam"))
OURS.append(metadata.EntryPoint("torch_google", "torch_google.entry_points:loaded", "torch.backends"))
import torch, torch_google
"""


def rows(sizes: Sizes) -> list[Row]:
    """Return a single comparison, which does not depend on `sizes`."""
    del sizes
    return [
        Row(
            "import torch with hooks, and torch_google, beside import torch",
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
