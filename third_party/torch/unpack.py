# SPDX-License-Identifier: Apache-2.0
"""Turn the pinned wheel into the patched tree of `@torch`. Run by the repository rule; stdlib only.

    unpack.py --wheel W --pin pin.json --patches DIR --seam FILE --out DIR

writes DIR/site (torch, functorch, torchgen and the distribution's metadata) and DIR/SOURCE_INFO.json.
Every step checks its input, and the hash of the result must be the one in the pin: whatever `@torch`
is built from, it is these bytes.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import json
import re
import shutil
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # Started by its path: imports are from the workspace's root.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tools.importer import (
    ApplyError,
    Entry,
    SeriesError,
    apply_series,
    entry_of,
    file_digest,
    hash_entries,
    load_series,
    tree_entries,
)

SEAM = "torch/_utils_internal.py"
SEAM_UPSTREAM = "torch/_utils_internal_upstream.py"
SOURCE_HASH = "torch/src_hash.txt"

# What no PAR runs: upstream's compiled C++ tests (with their models) and the protobuf compiler.
# 136 MB of 754. The shared-memory manager is the one program that torch starts. Headers in lib/
# are libshm's inner ones (include/ has its interface); for them lib/ would count among the
# directories that only compilers need, which a PAR unpacks apart.
_DROPPED = re.compile(r"torch/(test/|bin/(?!torch_shm_manager$)|lib/.*\.h$)")


class UnpackError(ValueError):
    """An input that is not what the pin says. One line, with the next step."""


@dataclass(frozen=True)
class Pin:
    """The one place that says which torch this is."""

    tag: str
    commit: str
    version: str
    wheel_sha256: str
    tree_hash: str


def read_pin(path: Path) -> Pin:
    """Read pin.json. A missing key raises UnpackError."""
    data = json.loads(path.read_text(encoding="utf-8"))
    try:
        return Pin(
            data["tag"], data["commit"], data["version"], data["wheel"]["sha256"], data["tree_hash"]
        )
    except KeyError as error:
        raise UnpackError(
            f"{path}: key {error} is missing. See third_party/torch/README.md"
        ) from None


def unpack(wheel: Path, pin_file: Path, patches: Path, seam: Path, out: Path) -> None:
    """Write `out`/site and `out`/SOURCE_INFO.json. Raises UnpackError, SeriesError or ApplyError."""
    pin = read_pin(pin_file)
    series = load_series(patches)
    found = file_digest(wheel)
    if found != pin.wheel_sha256:
        raise UnpackError(
            f"{wheel.name}: sha256 is {found}, {pin_file} wants {pin.wheel_sha256}. "
            "Get the wheel of that platform and build, or move the pin"
        )
    site = out / "site"
    shutil.rmtree(site, ignore_errors=True)
    _extract(wheel, site)
    _check_version(site / "torch" / "version.py", pin, pin_file)
    apply_series(series, site)
    _place_seam(site, seam)

    entries = tree_entries(site)
    _stamp_sources(site, entries, pin)
    _write_record(site, entries)
    tree = hash_entries(entries)
    if tree != pin.tree_hash:
        raise UnpackError(
            f"{pin_file}: tree_hash is {pin.tree_hash}, the patched tree hashes to {tree}. "
            "If the wheel, the series or the seam was changed on purpose, write the new hash there"
        )
    info = {
        "tag": pin.tag,
        "commit": pin.commit,
        "version": pin.version,
        "series": series.digest,
        "tree": tree,
    }
    (out / "SOURCE_INFO.json").write_text(json.dumps(info, indent=2) + "\n", encoding="utf-8")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="unpack", description=__doc__.split("\n", 1)[0])
    for name in ("wheel", "pin", "patches", "seam", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    args = parser.parse_args(argv)
    try:
        unpack(args.wheel, args.pin, args.patches, args.seam, args.out)
    except (ApplyError, OSError, SeriesError, UnpackError, zipfile.BadZipFile) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _extract(wheel: Path, site: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for item in archive.infolist():
            if item.is_dir() or _DROPPED.match(item.filename):
                continue
            target = Path(archive.extract(item, site))  # refuses to leave `site`
            target.chmod(0o755 if (item.external_attr >> 16) & 0o111 else 0o644)


def _check_version(version_py: Path, pin: Pin, pin_file: Path) -> None:
    text = version_py.read_text(encoding="utf-8")
    for name, want in (("__version__", pin.version), ("git_version", pin.commit)):
        match = re.search(rf"^{name} = '([^']*)'$", text, re.MULTILINE)
        found = match[1] if match else "nothing"
        if found != want:
            raise UnpackError(
                f"torch/version.py: {name} is {found}, {pin_file} wants {want}. Move the pin as a whole"
            )


def _place_seam(site: Path, seam: Path) -> None:
    """Upstream means this one file to be replaced; ours builds on the original, kept beside it."""
    (site / SEAM).rename(site / SEAM_UPSTREAM)
    shutil.copyfile(seam, site / SEAM)
    (site / SEAM).chmod(0o644)


def _stamp_sources(site: Path, entries: dict[str, Entry], pin: Pin) -> None:
    """Write what compile caches key on: any change of a source, header or native library changes it."""
    sources = {path: entry for path, entry in entries.items() if not _is_metadata(path)}
    stamp = hashlib.sha256(f"{pin.version}\n{hash_entries(sources)}\n".encode()).hexdigest()
    (site / SOURCE_HASH).write_text(stamp + "\n", encoding="ascii")
    entries[SOURCE_HASH] = entry_of(site, SOURCE_HASH)


def _write_record(site: Path, entries: dict[str, Entry]) -> None:
    """Rewrite RECORD for the files as they are, so that importlib.metadata tells the truth."""
    (record,) = (path for path in entries if path.endswith(".dist-info/RECORD"))
    with (site / record).open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out, lineterminator="\n")
        for path in sorted(entries):
            if path == record:
                rows.writerow((path, "", ""))
                continue
            raw = base64.urlsafe_b64encode(bytes.fromhex(entries[path].digest)).rstrip(b"=")
            rows.writerow((path, f"sha256={raw.decode()}", (site / path).stat().st_size))
    entries[record] = entry_of(site, record)


def _is_metadata(path: str) -> bool:
    return path.split("/", 1)[0].endswith(".dist-info")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
