# SPDX-License-Identifier: Apache-2.0
"""Build the same program with each packaging tool, from the same wheels, and reuse the builds."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence

from benchmarks.par_startup import measure, wheels

PROGRAM = pathlib.Path(__file__).with_name("program.py")
# The versions of the packaging tools: the latest releases when the published figures were measured.
PACKERS = {"pex": "2.105.2", "shiv": "1.0.8", "pyinstaller": "6.22.3"}


class BuildError(RuntimeError):
    """A packaging tool or pip failed. The message ends with the last lines of its output."""


class Workshop:
    """A directory with the packaged programs, which later runs reuse.

    directory: its path. If anything in it is deleted, the next run rebuilds it.
    python: the interpreter that all programs use.
    requirements: the program's dependencies, in pip's format ("torch==...").
    index: an additional package index, which pip uses only if the user's configured indexes lack
        a requirement.
    """

    def __init__(
        self, directory: pathlib.Path, *, python: str, requirements: Sequence[str], index: str
    ) -> None:
        self.directory = directory.absolute()
        self.requirements = tuple(requirements)
        self._python = python
        self._index = index
        self.directory.mkdir(parents=True, exist_ok=True)

    def beside(self, release: str) -> Workshop:
        """Return a Workshop in a subdirectory of this one. Its programs use torch `release`."""
        return Workshop(
            self._home(f"torch {release}"),
            python=self._python,
            requirements=wheels.requirements(release),
            index=self._index,
        )

    def peer(
        self,
        name: str,
        command: Sequence[str | os.PathLike[str]],
        *,
        caches: dict[str, str] | None = None,
        interpreter: bool = False,
    ) -> measure.Peer:
        """Return a `Peer` that runs `command`, with the directory for `name` as HOME.

        `caches` maps the environment variables that select a cache to subdirectories of HOME.
        """
        home = self._home(name)
        directories = {key: home / below for key, below in (caches or {}).items()}
        environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
        environment.update({key: str(path) for key, path in directories.items()})
        return measure.Peer(
            name,
            _words(command),
            environment,
            tuple(directories.values()),
            interpreter=interpreter,
        )

    def once(self, name: str, build: Callable[[pathlib.Path], None]) -> pathlib.Path:
        """Return the directory for the program called `name`.

        Call `build` to fill it, unless an earlier run built it with the same tools and wheels.
        """
        home = self._home(name)
        recipe = json.dumps([self._python, self.requirements, PACKERS])
        stamp = home / ".built"
        if not stamp.is_file() or stamp.read_text() != recipe:
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            print(f"building {name} ...", flush=True)
            build(home)
            stamp.write_text(recipe)
        return home

    def environment(self, home: pathlib.Path, *packages: str) -> pathlib.Path:
        """Create a virtual environment with `packages` in home/env; return its bin directory."""
        self.run(self._python, "-m", "venv", home / "env")
        if packages:
            self.run(home / "env" / "bin" / "pip", "install", "--quiet", *packages)
        return home / "env" / "bin"

    def wheels(self) -> pathlib.Path:
        """Return a directory with the wheels of the requirements and of their dependencies."""

        def build(home: pathlib.Path) -> None:
            pip = self.environment(home) / "pip"
            download: list[str | os.PathLike[str]]
            download = [pip, "download", "--quiet", "--dest", home / "wheels", *self.requirements]
            try:
                self.run(*download)
            except BuildError:
                self.run(*download, "--extra-index-url", self._index)

        return self.once("wheels", build) / "wheels"

    def _home(self, name: str) -> pathlib.Path:
        return self.directory / re.sub(r"\W+", "_", name).lower()

    def run(self, *command: str | os.PathLike[str], **environment: str) -> None:
        finished = subprocess.run(
            command,
            env={**os.environ, **environment},
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Without a terminal, no tool can wait for an answer.
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if finished.returncode != 0:
            line = " ".join(_words(command))
            raise BuildError(
                f"`{line}` ended with status {finished.returncode}:\n{finished.stdout[-2000:]}"
            )


def venv(shop: Workshop, name: str = "venv") -> measure.Peer:
    wheels = shop.wheels()

    def build(home: pathlib.Path) -> None:
        shop.environment(home, "--no-index", "--find-links", str(wheels), *shop.requirements)

    home = shop.once(name, build)
    python = home / "env" / "bin" / "python"
    return shop.peer(name, [python, PROGRAM], interpreter=True)


def venv_of(shop: Workshop, release: str) -> measure.Peer:
    """Return a `Peer` for a venv with torch `release`, built in a subdirectory."""
    return venv(shop.beside(release), f"venv, torch {release}")


def pex(shop: Workshop) -> measure.Peer:
    return _pex(shop, "pex")


def pex_venv(shop: Workshop) -> measure.Peer:
    return _pex(shop, "pex --venv", "--venv")


def _pex(shop: Workshop, name: str, *options: str) -> measure.Peer:
    wheels = shop.wheels()

    def build(home: pathlib.Path) -> None:
        tools = shop.environment(home, f"pex=={PACKERS['pex']}")
        shop.run(
            tools / "pex",
            *shop.requirements,
            "--no-pypi",
            f"--find-links={wheels}",
            f"--exe={PROGRAM}",
            f"--output-file={home}/program.pex",
            *options,
            PEX_ROOT=str(home / "build"),
        )
        shutil.rmtree(home / "build")

    home = shop.once(name, build)
    python = home / "env" / "bin" / "python"
    return shop.peer(name, [python, home / "program.pex"], caches={"PEX_ROOT": "root"})


def shiv(shop: Workshop) -> measure.Peer:
    wheels = shop.wheels()

    def build(home: pathlib.Path) -> None:
        tools = shop.environment(home, f"shiv=={PACKERS['shiv']}")
        (home / "source").mkdir()
        shutil.copy(PROGRAM, home / "source")
        shop.run(
            tools / "shiv",
            "--compressed",
            "--entry-point=program:main",
            f"--output-file={home}/program.pyz",
            f"--site-packages={home}/source",
            *shop.requirements,
            "--no-index",
            f"--find-links={wheels}",
        )

    home = shop.once("shiv", build)
    python = home / "env" / "bin" / "python"
    return shop.peer("shiv", [python, home / "program.pyz"], caches={"SHIV_ROOT": "root"})


def pyinstaller(shop: Workshop) -> measure.Peer:
    wheels = shop.wheels()

    def build(home: pathlib.Path) -> None:
        tools = shop.environment(home, f"pyinstaller=={PACKERS['pyinstaller']}")
        shop.run(
            tools / "pip",
            "install",
            "--quiet",
            "--no-index",
            f"--find-links={wheels}",
            *shop.requirements,
        )
        shop.run(
            tools / "pyinstaller",
            "--onedir",
            "--noconfirm",
            "--log-level=ERROR",
            f"--distpath={home}/dist",
            f"--workpath={home}/work",
            f"--specpath={home}",
            PROGRAM,
            PYINSTALLER_CONFIG_DIR=str(home / "config"),
        )
        shutil.rmtree(home / "work")

    home = shop.once("PyInstaller onedir", build)
    return shop.peer("PyInstaller onedir", [home / "dist" / "program" / "program"])


def par(shop: Workshop, path: pathlib.Path, name: str = "PAR") -> measure.Peer:
    """Return the `Peer` for a PAR that Bazel has built."""
    shop.once(name, lambda home: None)
    caches = {"PAR_CACHE_DIR": "cache"}
    return shop.peer(name, [path.resolve(strict=True)], caches=caches, interpreter=True)


def idle(peer: measure.Peer) -> measure.Peer:
    """Return a `Peer` that starts the same interpreter without importing torch."""
    return dataclasses.replace(
        peer,
        command=(peer.command[0], "-c", "pass"),
        environment={**peer.environment, "PAR_INTERPRETER": "1"},
        expected=b"",
    )


def start(peer: measure.Peer, kind: str) -> measure.Peer:
    """Return a `Peer` that starts the same program in another way; `kind` is a key of STARTS."""
    environment = {**peer.environment, "PYTHONPATH": str(PROGRAM.parents[2])}
    if kind == "door, -c":
        command = (peer.command[0], "-c", "import torch; print(torch.ones(2) + 1)")
        environment["PAR_INTERPRETER"] = "1"
    else:
        # A PAR contains the module to run; an ordinary interpreter imports it from the workspace.
        inside = len(peer.command) == 1
        environment["PAR_MAIN"] = _STARTS_MODULE
        command = (peer.command[0], *(() if inside else ("-m", _STARTS_MODULE)), STARTS[kind])
    return dataclasses.replace(
        peer,
        command=command,
        environment=environment,
        children=kind in _CHILDREN,
    )


def torch_release(peer: measure.Peer) -> str:
    """Return a program's torch version. Programs in the same table may have different versions."""
    bare = idle(peer)
    words = [*bare.command[:2], "import torch; print(torch.__version__)"]
    done = subprocess.run(
        words,
        env=dict(bare.environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-500:]
        raise BuildError(f"`{' '.join(words)}` ended with status {done.returncode}: {said}")
    return done.stdout.decode().strip()


def copy_of_natives(shop: Workshop) -> measure.Peer:
    """Return a `Peer` that copies torch's libraries; its cost is a lower bound for a cold start."""
    home = shop.once("cp of torch/lib", lambda home: None)
    library = next(
        (shop.directory / "venv" / "env" / "lib").glob("python3*/site-packages/torch/lib")
    )
    target = home / "copy"
    peer = shop.peer("cp of torch/lib", ["/bin/cp", "-r", library, target])
    return measure.Peer(peer.name, peer.command, peer.environment, (target,), b"")


def _words(command: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    return tuple(os.fspath(word) for word in command)


# The ways to start the program, with the argument that selects each in starts.py.
STARTS = {
    "door, -c": "",
    "door, module": "module",
    "spawn child": "spawn",
    "DataLoader worker": "loader",
    "torchrun worker": "torchrun",
}
_CHILDREN = ("spawn child", "DataLoader worker", "torchrun worker")
_STARTS_MODULE = "benchmarks.par_startup.starts"

# The packaging tools by name. Ratios are relative to the first one.
BUILDERS: dict[str, Callable[[Workshop], measure.Peer]] = {
    "venv": venv,
    "pex": pex,
    "pex_venv": pex_venv,
    "shiv": shiv,
    "pyinstaller": pyinstaller,
}
