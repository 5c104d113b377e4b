# SPDX-License-Identifier: Apache-2.0
"""Upload a program to a Ray cluster, in pieces small enough for Ray's packages."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch_google.launch.submit.ray_cluster import Cluster
from torch_google.launch.submit.scheduler import SubmitError

_PIECE = 64 << 20  # Ray's dashboard accepts requests of less than 100 MiB
# A script that joins the program's pieces, which it finds through PYTHONPATH. Jobs on one node
# share the working directory, so the script creates the program there atomically.
_START = """\
#!/bin/sh
# Joins the pieces of a program, and starts it.
set -eu
program=./{program}
if [ ! -x "$program" ]; then
    for piece in {pieces}; do
        found=
        IFS=:
        for directory in $PYTHONPATH; do
            if [ -f "$directory/$piece" ]; then found=$directory/$piece; fi
        done
        unset IFS
        if [ -z "$found" ]; then echo "piece $piece of {program} is missing" >&2; exit 1; fi
        cat "$found" >> "$program.$$"
    done
    chmod +x "$program.$$"
    mv "$program.$$" "$program"
fi
exec "$program" "$@"
"""


@dataclasses.dataclass(frozen=True)
class Packages:
    """A program that was uploaded to the cluster.

    environment: Ray's runtime_env for jobs that run the program.
    command: the command that starts the program in a job with that environment.
    """

    environment: dict[str, Any]
    command: tuple[str, ...] = ("sh", "./start")


def upload(cluster: Cluster, program: Path, say: Callable[[str], None]) -> Packages:
    """Upload a program in pieces, skipping those that the cluster already has.

    Raises SubmitError if the program cannot be read or an upload fails.
    """
    pieces: list[str] = []
    uris: list[str] = []
    try:
        size = program.stat().st_size
        for data in _pieces(program):
            pieces.append(f"piece-{hashlib.sha256(data).hexdigest()[:32]}")
            uris.append(_store(cluster, {pieces[-1]: data}))
            sent = min(len(pieces) * _PIECE, size)
            say(f"the cluster has {100 * sent // size} % of {program.name}")
    except OSError as error:
        raise SubmitError(f"{program}: {error.strerror}; give --par=PATH") from None
    start = _START.format(program=program.name, pieces=" ".join(pieces))
    directory = _store(cluster, {"start": start.encode()})
    return Packages({"working_dir": directory, "py_modules": uris})


def _pieces(program: Path) -> Iterator[bytes]:
    with program.open("rb") as file:
        while data := file.read(_PIECE):
            yield data


def _store(cluster: Cluster, files: dict[str, bytes]) -> str:
    """Upload a package unless the cluster has it. Return its URI, which contains a digest."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:  # uncompressed: a PAR is already compressed
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    package = buffer.getvalue()
    name = f"_ray_pkg_{hashlib.sha256(package).hexdigest()[:32]}.zip"
    if not cluster.has_package(name):
        cluster.upload_package(name, package)
    return f"gcs://{name}"
