# SPDX-License-Identifier: Apache-2.0
"""Compare a PAR with a venv and a container image, for CPUs and for CUDA; see README.md."""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import results
from benchmarks.par_startup.measure import Peer, StartError
from benchmarks.programs import measure, wheels
from benchmarks.programs.forms import ENVIRONMENT, CommandError, Form, Par, Venv
from benchmarks.programs.image import Image
from benchmarks.results import Figure
from third_party.pypi.fetch_wheel import FetchError

_PACKAGES = """
import importlib.metadata, json
print(json.dumps({row.name.lower().replace("_", "-"): row.version
                  for row in importlib.metadata.distributions()}))
"""


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    if len({kind for kind, _ in options.programs}) < len(options.programs):
        print("programs: KIND=PAR: a kind is given twice; give each kind once", file=sys.stderr)
        return 1
    figures: list[Figure] = []
    packages = {}
    try:
        for kind, path in options.programs:
            programs = _Programs(kind, path, options)
            packages[kind] = programs.check_packages()
            figures += programs.measure()
    except (CommandError, FetchError, OSError, StartError, subprocess.SubprocessError) as error:
        print(f"programs: {error}", file=sys.stderr)
        return 1
    for figure in figures:
        value = f"{figure.number} {figure.unit}" if figure.unit else f"{figure.cpu_seconds} s"
        print(f"| {figure.case} | {figure.subject} | {value} | {figure.cpu_ratio or ''} |")
    results.write(
        options.json, "programs", figures, details={"packages": packages}, note=_note(options)
    )
    return 0


class _Programs:
    """The forms of the program of one kind, in a subdirectory of --work."""

    def __init__(self, kind: str, par: Path, options: argparse.Namespace) -> None:
        self._kind, self._options = kind, options
        self._directory = (options.work / kind).absolute()
        self._wheels = self._directory / "wheels"
        wheels.fetch(kind, self._wheels)
        self._par = Par(f"PAR, {kind}", par, self._directory / "par")
        self._venv = Venv(f"venv, {kind}", self._wheels, options.python, self._directory / "venv")
        self._image = Image(
            f"image, {kind}",
            wheels=self._wheels,
            base=options.base,
            runtime=options.runtime,
            directory=self._directory / "image",
        )
        self._image.build()

    def check_packages(self) -> dict[str, str]:
        """Return the packages and versions of the PAR. Raise CommandError if the venv's differ."""
        self._venv.clear()
        self._venv.set_up()
        par = _packages(self._par.peer)
        venv = _packages(self._venv.peer)
        venv.pop("pip", None)  # `python -m venv` adds it.
        if par != venv:
            names = sorted(key for key in par.keys() | venv.keys() if par.get(key) != venv.get(key))
            raise CommandError(
                f"{self._kind}: the PAR and the venv differ in {', '.join(names)}. Build the PAR "
                "from this commit"
            )
        return par

    def measure(self) -> list[Figure]:
        options = self._options
        forms: Sequence[Form] = (self._par, self._venv, self._image)
        try:
            observed = measure.observe(
                forms, rounds=options.rounds, warm_rounds=options.warm_rounds
            )
            figures = [
                measure.wheels_figure(f"wheels of the venv, {self._kind}", self._wheels),
                *measure.figures(observed, base=self._venv.peer.name),
                measure.cache_figure(self._par),
            ]
            # Make room for the copy and for the files of the second program.
            self._venv.clear()
            self._image.clear()
            copy = measure.Copy(f"cp -r, {self._kind}", self._par, self._directory)
            figures += measure.copy_figures(copy.peer.name, copy.observe(options.rounds))
            for kind, path in options.second:
                if kind == self._kind:
                    figures.append(measure.second_figure(self._par, f"{path.name}, {kind}", path))
        finally:
            for form in forms:
                form.clear()
        return figures


def _packages(peer: Peer) -> dict[str, str]:
    done = subprocess.run(
        [peer.command[0], "-c", _PACKAGES],
        env={**peer.environment, "PAR_INTERPRETER": "1"},
        check=True,
        stdout=subprocess.PIPE,
    )
    packages: dict[str, str] = json.loads(done.stdout)
    return packages


def _note(options: argparse.Namespace) -> str:
    """Describe how the programs ran, without paths."""
    python = _first_line([options.python, "--version"])
    runtime = _first_line([options.runtime, "--version"])
    buildah = _first_line(["buildah", "--version"]).partition(" (")[0]
    return (
        f"All forms ran on the same machine, which has {_driver()}. The venv has "
        f"{python}; the image is unpacked by {buildah} and started by {runtime}."
    )


def _driver() -> str:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver and no GPU: programs for CUDA only import torch"
    return "an NVIDIA driver"


def _first_line(command: Sequence[str]) -> str:
    done = subprocess.run(command, env=ENVIRONMENT, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()[0]


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.programs", description=__doc__)
    parser.add_argument(
        "programs",
        nargs="+",
        type=_program,
        metavar="KIND=FILE",
        help="program.par of par_startup; KIND is CPU or CUDA",
    )
    parser.add_argument(
        "--second",
        action="append",
        default=[],
        type=_program,
        metavar="KIND=FILE",
        help="another PAR, which starts with the cache of the first one of its kind",
    )
    parser.add_argument("--base", type=Path, required=True, help="a tar file of a root file system")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the venv")
    parser.add_argument(
        "--runtime", default=shutil.which("runc"), help="starts containers; default: runc"
    )
    parser.add_argument("--work", type=Path, required=True, help="a directory with 25 GB of space")
    parser.add_argument("--rounds", type=int, default=3, help="number of set-ups and first starts")
    parser.add_argument("--warm-rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, required=True, help="the file for the results")
    options = parser.parse_args(arguments)
    if not options.runtime:
        parser.error("this machine has no runc: `apt-get install runc`, or name another --runtime")
    return options


def _program(text: str) -> tuple[str, Path]:
    kind, equals, path = text.partition("=")
    if not equals or kind not in wheels.KINDS or not Path(path).is_file():
        kinds = " or ".join(wheels.KINDS)
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected KIND=FILE of a packed program, with KIND {kinds}"
        )
    return kind, Path(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
