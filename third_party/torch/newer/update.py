#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pin a newer release of torch, and lock the packages that only its wheel requires.

    third_party/torch/newer/update.py                  lock again, after a change of the main lock
    third_party/torch/newer/update.py --tag v2.15.0    pin the wheel of another release and lock

patches/torch must have a series of the release. With --tag, the script downloads the release's CUDA
wheel (half a gigabyte) and checks that it was built from the commit that the series is for.
"""

from __future__ import annotations

import argparse
import json
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

if not __package__:  # Started by its path, so the workspace's root is not on sys.path.
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from third_party.pypi import extra_locks, host_pip, lock, update
from third_party.pypi.pip_report import ConflictError
from third_party.torch.cuda import wheel_pin
from third_party.torch.cuda.wheel_metadata import WheelError

PIN = Path(__file__).parent / "pin.json"
LOCK = Path(__file__).parent / "lock.json"
ANNOTATIONS = Path(__file__).parent / "annotations.json"
_WORKSPACE = Path(__file__).parents[3]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tag", help="the release to pin, such as v2.15.0")
    flags = parser.parse_args()
    old = lock.loads(LOCK.read_text()) if LOCK.exists() else None
    try:
        update.check_python()
        pin = wheel_pin.make(release(flags.tag)) if flags.tag else json.loads(PIN.read_text())
        new = resolve(pin, old)
    except (
        ConflictError,
        OSError,
        WheelError,
        extra_locks.PinnedError,
        host_pip.NoPipError,
        update.UpdateError,
        zipfile.BadZipFile,
    ) as error:
        print(f"third_party/torch/newer/update.py: {error}", file=sys.stderr)
        return 1
    update.write(PIN, json.dumps(pin, indent=2) + "\n")
    update.write(LOCK, new.dumps())
    for line in update.changes(old, new):
        print(f"{LOCK.name}: {line}")
    return 0


def release(tag: str, workspace: Path = _WORKSPACE) -> wheel_pin.Release:
    """Return the release that a series is for. Raises a WheelError if there is no such series."""
    file = f"patches/torch/{tag}/base.json"
    try:
        commit = json.loads((workspace / file).read_text())["commit"]
    except FileNotFoundError:
        raise WheelError(
            f"--tag {tag}: no {file}. Import the series first: tools/import.py --tag {tag}"
        ) from None
    return wheel_pin.Release(tag, commit, file)


def resolve(pin: Mapping[str, Any], old: lock.Lock | None) -> lock.Lock:
    """Return the lock of the packages that only this wheel requires.

    The versions in the main lock stay. Raises a PinnedError or a ConflictError if the wheel needs
    other versions.
    """
    main = lock.loads(lock.FILE.read_text())
    torch = f"torch=={pin['wheel']['version']}"
    name = "third_party/torch/newer/pin.json"
    with update.pip_with_torch(torch, tuple(pin["requires"])) as ask:
        locks = extra_locks.update(
            {name: old} if old else {},
            {name: pin["requires"]},
            base=extra_locks.Base.of([main], torch=torch),
            ask=ask,
        )
    return locks[name]


if __name__ == "__main__":
    sys.exit(main())
