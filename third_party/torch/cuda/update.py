#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pin the CUDA wheel of the release in third_party/torch/pin.json.

    third_party/torch/cuda/update.py

The script downloads the wheel (half a gigabyte) with pip, and checks that it was built from the
pinned commit. Then it writes pin.json, and writes the packages that only this wheel requires to
third_party/pypi/groups/torch_cuda.in.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

if not __package__:  # Started by its path, so the workspace's root is not on sys.path.
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from third_party.pypi import host_pip, lock
from third_party.torch.cuda import wheel_pin
from third_party.torch.cuda.wheel_metadata import WheelError

PIN = Path(__file__).parent / "pin.json"
GROUP = lock.FILE.parent / "groups" / "torch_cuda.in"
_HEAD = """\
# The packages that torch's CUDA wheel requires and its CPU wheel does not: NVIDIA's libraries, and
# Triton, the compiler that torch.compile uses on GPUs. third_party/torch/cuda/update.py writes this.
"""


def main() -> int:
    release = json.loads(lock.TORCH_PIN.read_text())
    try:
        pin = wheel_pin.make(
            wheel_pin.Release(release["tag"], release["commit"], "third_party/torch/pin.json")
        )
    except (WheelError, host_pip.NoPipError, OSError, zipfile.BadZipFile) as error:
        print(f"third_party/torch/cuda/update.py: {error}", file=sys.stderr)
        return 1
    PIN.write_text(json.dumps(pin, indent=2) + "\n")
    GROUP.write_text(_HEAD + "".join(f"{line}\n" for line in metadata_lines(pin)))
    print(f"{PIN.name}: torch {pin['version']}. Next: third_party/pypi/update.py")
    return 0


def metadata_lines(pin: dict[str, object]) -> list[str]:
    """Return the requirement lines of the `torch_cuda` group."""
    requires = pin["requires"]
    assert isinstance(requires, list)
    return [str(line) for line in requires]


if __name__ == "__main__":
    sys.exit(main())
