# SPDX-License-Identifier: Apache-2.0
"""The command that the wheel rules run.

    main.py metadata DESCRIPTION LOCK PIN OUT...
    main.py wheel DESCRIPTION MANIFEST OUT

DESCRIPTION is a JSON file that the rule writes. LOCK is the workspace's lock file, and PIN the file
that pins torch. The first command writes METADATA and entry_points.txt, and the second one writes
the wheel. MANIFEST has one line per file: its path in the wheel, a tab, and its path on disk.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tools.wheel import archive, metadata


def main(argv: list[str]) -> int:
    command, description, *paths = argv
    about = json.loads(Path(description).read_text(encoding="utf-8"))
    try:
        if command == "metadata":
            _metadata(about, *map(Path, paths))
        else:
            _wheel(about, *map(Path, paths))
    except (metadata.MetadataError, archive.WheelError) as error:
        print(f"{about['label']}: {error}", file=sys.stderr)
        return 1
    return 0


def _metadata(about: dict[str, object], lock: Path, pin: Path, text: Path, points: Path) -> None:
    distribution = metadata.described(about)
    versions = metadata.locked(json.loads(lock.read_bytes()), json.loads(pin.read_bytes()))
    text.write_text(metadata.metadata(distribution, versions), encoding="utf-8")
    points.write_text(metadata.entry_points(distribution), encoding="utf-8")


def _wheel(about: dict[str, str], manifest: Path, output: Path) -> None:
    rows = [line.split("\t") for line in manifest.read_text(encoding="utf-8").splitlines()]
    archive.write(
        output,
        tag=about["tag"],
        files={path: Path(disk).read_bytes() for path, disk in rows},
        info=f"{about['name']}-{about['version']}.dist-info",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
