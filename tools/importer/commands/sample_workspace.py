# SPDX-License-Identifier: Apache-2.0
"""A small workspace for tests, with a patch series, and upstream releases as directory trees."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.importer.commands.main import main
from tools.importer.engine import Change, base_files, record_base, render_patch
from tools.importer.series import load_series
from tools.importer.snapshot import Blob, DictSnapshot

LINES = [f"line {number}\n" for number in range(1, 41)]
V1 = {
    "torch/a.py": "".join(LINES),
    "torch/b.py": "".join(line.replace("line", "row") for line in LINES),
    "LICENSE": "Do as you like.\n",
}


def edited(text: str, **lines: str) -> str:
    """Return `text` with lines replaced: `line_3="three"` replaces the line `line 3`."""
    for name, new in lines.items():
        text = text.replace(f"{name.replace('_', ' ')}\n", f"{new}\n")
    return text


@dataclass(frozen=True)
class SampleWorkspace:
    """A workspace at `root`, with upstream releases next to it in `upstream`."""

    root: Path
    upstream: Path

    def release(self, label: str, files: Mapping[str, str]) -> Path:
        """Write an upstream release as a directory tree."""
        for path, text in files.items():
            target = self.upstream / label / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return self.upstream / label

    def series(self, label: str, patches: Mapping[str, Mapping[str, str | None]]) -> Path:
        """Write a patch series and record V1 as its base. `patches` maps names to new contents."""
        directory = self.root / "patches/torch" / label
        directory.mkdir(parents=True)
        now: dict[str, Blob] = {path: Blob(text.encode()) for path, text in V1.items()}
        snapshot = DictSnapshot(label, now, pin={"kind": "tree"})
        for name, files in patches.items():
            changes = []
            for path, text in files.items():
                after = None if text is None else Blob(text.encode())
                changes.append(Change(path, path, now.get(path), after))
                now = {**now, path: after} if after else {k: v for k, v in now.items() if k != path}
            (directory / f"{name}.patch").write_bytes(render_patch(_header(name), changes))
        names = "".join(f"{name}.patch\n" for name in patches)
        (directory / "series").write_text(f"# Ours.\n{names}")
        for name, data in base_files(record_base(load_series(directory), snapshot)).items():
            (directory / name).write_bytes(data)
        return directory

    def run(self, *arguments: str) -> int:
        """Run import.py on the workspace, in this process."""
        return main(["--workspace", str(self.root), *arguments])

    def files(self) -> dict[str, bytes]:
        """Return all files in the workspace, except those in `.git` and `.import`."""
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and not {".git", ".import"} & set(path.parts)
        }

    def conflict(self, path: str) -> Path:
        return self.root / ".import/conflict" / path

    def at_rest(self) -> bool:
        """Return whether every command has finished, even if the last one can still be undone."""
        return {path.name for path in self.root.glob(".import/*")} <= {".gitignore", "undo"}

    def git(self, *arguments: str) -> None:
        """Run git in the workspace, without the user's configuration."""
        subprocess.run(
            ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *arguments],
            cwd=self.root,
            check=True,
            capture_output=True,
            env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        )


def make_workspace(directory: Path) -> SampleWorkspace:
    """Create a workspace without a patch series, whose build is pinned to v1."""
    sample = SampleWorkspace(directory / "workspace", directory / "upstream")
    torch = sample.root / "third_party/torch"
    torch.mkdir(parents=True)
    settings = {
        "name": "torch",
        "builder": "torch_wheel",
        "pin": "third_party/torch/pin.json",
        "series": "patches/torch",
        "metadata": "third_party/torch/METADATA",
        "origins": {},
    }
    (torch / "import.json").write_text(json.dumps(settings))
    (torch / "pin.json").write_text(json.dumps({"tag": "v1"}))
    (sample.root / "patches/torch").mkdir(parents=True)
    sample.release("v1", V1)
    return sample


def _header(name: str) -> bytes:
    lines: Sequence[str] = (
        f"Subject: {name}",
        "Owner: us",
        "Reason: build",
        "Upstream: None yet",
        "Extension-point-considered: None",
        "Test: t.py::t",
    )
    return "\n".join(lines).encode()
