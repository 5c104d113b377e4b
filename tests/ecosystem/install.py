# SPDX-License-Identifier: Apache-2.0
"""Install libraries, torch and the `tpu` device into a virtual environment.

    python -m tests.ecosystem.install DIRECTORY                      all groups of libraries
    python -m tests.ecosystem.install DIRECTORY --groups hf,vision   some groups

pip installs exactly the locked wheels, and checks their hashes. The environment imports
torch_google from this workspace, and has the entry points that its wheel registers. To use the
device, build `torch_google/tpu/_C.so` with the environment's Python:
`python torch_google/tpu/csrc/develop.py`.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from tests.ecosystem import cuda_stand_in, locked
from tools.wheel import metadata

_ROOT = Path(__file__).parents[2]
# The environment variable that overrides the package index for torch's CPU build, as in Bazel
# builds.
_INDEX_VARIABLE = "TORCH_GOOGLE_TORCH_INDEX"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--groups", default=",".join(locked.groups()))
    flags = parser.parse_args(argv)
    unknown = sorted(set(flags.groups.split(",")) - set(locked.groups()))
    if unknown:
        parser.error(f"--groups: no group {unknown[0]}; there are {', '.join(locked.groups())}")
    try:
        install(flags.directory, flags.groups.split(","))
    except subprocess.CalledProcessError as error:
        print(f"install.py: {error.cmd[0]} exited {error.returncode}", file=sys.stderr)
        return 1
    return 0


def install(directory: Path, groups: Sequence[str]) -> None:
    """Create or extend the virtual environment in `directory`.

    Raises CalledProcessError if pip or the compiler fails.
    """
    python = directory / "bin" / "python"
    if not python.exists():
        venv.create(directory, with_pip=True)
    wanted = directory / "requirements.txt"
    wanted.write_text("\n".join(locked.pip_lines(groups)) + "\n", encoding="utf-8")
    index = os.environ.get(_INDEX_VARIABLE, locked.extra_index())
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    subprocess.run(
        [
            *pip, "--only-binary=:all:", "--require-hashes", f"--extra-index-url={index}",
            f"--requirement={wanted}",
        ],
        check=True,
    )  # fmt: skip
    site = directory / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    _link(site)
    if (site / "torchvision").exists():
        cuda_stand_in.build(site)


def _link(site: Path) -> None:
    """Make the workspace's torch_google importable, with the same entry points as the wheel."""
    (site / "torch_google_workspace.pth").write_text(f"{_ROOT}\n", encoding="utf-8")
    info = site / "torch_google-0.dist-info"
    info.mkdir(exist_ok=True)
    points = metadata.described(
        {
            "name": "torch_google",
            "version": "0",
            "summary": "The workspace's own.",
            "licence": "Apache-2.0",
            "python": "==3.11.*",
            "exact": [],
            "requires": [],
            "entry_points": entry_points((_ROOT / "torch_google/BUILD").read_text()),
        }
    )
    (info / "METADATA").write_text(metadata.metadata(points, {}), encoding="utf-8")
    (info / "entry_points.txt").write_text(metadata.entry_points(points), encoding="utf-8")


def entry_points(build: str) -> list[str]:
    """Return the wheel's entry points. `build` is the text of torch_google/BUILD."""
    lists: dict[str, list[str]] = {}
    for node in ast.parse(build).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            lists[node.targets[0].id] = ast.literal_eval(node.value)
    return [*lists["_LIBRARIES"], *lists["_DEVICE"]]


if __name__ == "__main__":
    sys.exit(main())
