# SPDX-License-Identifier: Apache-2.0
"""Prepare the same patch series and release for three tools, each in a resettable directory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.importer.made_upstream import Upstream
from benchmarks.par_startup.measure import Peer
from tools.importer.engine import Change, base_files, record_base, render_patch
from tools.importer.series import load_series
from tools.importer.snapshot import Blob, DictSnapshot

_WORKSPACE = Path(__file__).parents[2]
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LC_ALL": "C",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}
_HEADER = (
    "Subject: {}\nOwner: benchmark\nReason: build\nUpstream: none\n"
    "Extension-point-considered: none\nTest: none\n"
)


@dataclass(frozen=True)
class Contender:
    """A program to measure, and a function that resets its directory before each run."""

    peer: Peer
    reset: Callable[[], None]


class Workshop:
    """A directory with the inputs for all tools. If it is deleted, the next run rebuilds it."""

    def __init__(self, directory: Path, make: Callable[[], Upstream], *recipe: object) -> None:
        """`make` generates the upstream project.

        `recipe` contains the parameters of `make`. If they have not changed, `build` reuses the
        existing project.
        """
        self.directory = directory.absolute()
        self._recipe = json.dumps([*recipe, 2])
        self._make = make

    def build(self) -> None:
        """Create the trees, patch series and repository, unless an earlier run has created them."""
        stamp = self.directory / "made"
        if stamp.is_file() and stamp.read_text() == self._recipe:
            return
        for name in ("v1", "v2", "v3", "git", "quilt", "series", "engine"):
            shutil.rmtree(self.directory / name, ignore_errors=True)
        print("making an upstream ...", flush=True)
        self.directory.mkdir(parents=True, exist_ok=True)
        upstream = self._make()
        for number, release in enumerate(upstream.releases, start=1):
            _write(self.directory / f"v{number}", release)
        _write(self.directory / "quilt", upstream.releases[1])
        self._series(upstream)
        self._repository(upstream)
        stamp.write_text(self._recipe)

    def engine(self, run: str, *releases: str) -> Contender:
        home = self.directory / "engine" / run
        trees = [str(self.directory / release) for release in releases]
        module = ["-m", "benchmarks.importer.engine_run", run]
        command = (sys.executable, *module, str(self.directory / "series"), str(home), *trees)
        environment = _ENVIRONMENT | {"PYTHONPATH": str(_WORKSPACE)}
        peer = Peer(run, command, environment, expected=b"")
        return Contender(peer, lambda: shutil.rmtree(home, ignore_errors=True))

    def figures(self, run: str) -> Mapping[str, float]:
        """Return the figures that engine_run.py wrote for the operation `run`, such as `drift`."""
        figures: dict[str, float] = json.loads(
            (self.directory / "engine" / run / "figures.json").read_text()
        )
        return figures

    def git_am(self) -> Contender:
        repository = self.directory / "git"
        script = f"git -C {repository} am -q -3 --keep-cr --keep-non-patch {repository}.mbox"
        peer = Peer(
            "git am -3", ("/bin/sh", "-c", f"{script} >/dev/null"), _ENVIRONMENT, expected=b""
        )

        def reset() -> None:
            _git(repository, "reset", "-q", "--hard", "v2")

        return Contender(peer, reset)

    def quilt(self) -> Contender:
        """Return a contender that runs quilt, from a Debian package unpacked in this directory."""
        home = self.directory / "quilt-package"
        if not home.is_dir():
            packages = self.directory / "packages"
            packages.mkdir(exist_ok=True)
            subprocess.run(["apt-get", "-q", "download", "quilt"], cwd=packages, check=True)
            (package,) = packages.glob("quilt_*.deb")
            subprocess.run(["dpkg-deb", "-x", package, home], check=True)
        tree = self.directory / "quilt"
        environment = _ENVIRONMENT | {
            "QUILT_DIR": str(home / "usr/share/quilt"),
            "QUILT_PATCHES": str(self.directory / "series"),
            "HOME": str(home),
        }
        program = f"cd {tree} && {home}/usr/bin/quilt --quiltrc=-"
        peer = Peer(
            "quilt push -a",
            ("/bin/sh", "-c", f"{program} push -a -q >{tree}.log 2>&1"),
            environment,
            expected=b"",
        )

        def reset() -> None:
            if (tree / ".pc" / "applied-patches").is_file():
                undo = ["/bin/sh", "-c", f"{program} pop -a -f -q >/dev/null"]
                subprocess.run(undo, check=True, env=environment)

        return Contender(peer, reset)

    def _series(self, upstream: Upstream) -> None:
        root = self.directory / "series"
        root.mkdir()
        first = {path: Blob(text.encode()) for path, text in upstream.releases[0].items()}
        now = dict(first)
        for name, texts in upstream.steps:
            changes = []
            for path, text in texts.items():
                blob = Blob(text.encode())
                changes.append(Change(path, path, now[path], blob))
                now[path] = blob
            header = _HEADER.format(name).encode()
            (root / f"{name}.patch").write_bytes(render_patch(header, changes))
        (root / "series").write_text("".join(f"{name}.patch\n" for name, _ in upstream.steps))
        base = record_base(load_series(root), DictSnapshot("v1", first))
        for name, data in base_files(base).items():
            (root / name).write_bytes(data)

    def _repository(self, upstream: Upstream) -> None:
        """Commit two releases, whose blobs `git am -3` needs, and write the patches as an mbox."""
        repository = self.directory / "git"
        repository.mkdir()
        _git(repository, "init", "-q")
        _git(repository, "config", "gc.auto", "0")
        for number in (1, 2):
            stream = _commit(f"v{number}", upstream.releases[number - 1])
            _git(repository, "fast-import", "--quiet", stdin=stream)
        _git(repository, "checkout", "-q", "--detach", "v1")
        for name, _ in upstream.steps:
            _git(repository, "apply", "--index", str(self.directory / "series" / f"{name}.patch"))
            _git(repository, "commit", "-q", "-m", name)
        mail = _git(repository, "format-patch", "--stdout", "--full-index", "v1..HEAD")
        Path(f"{repository}.mbox").write_bytes(mail)
        _git(repository, "checkout", "-q", "--detach", "v2")


def status() -> Peer:
    """Return a `Peer` that runs `tools/import.py status`. It fails if an import is unfinished."""
    command = (str(_WORKSPACE / "tools/import.py"), "status")
    return Peer("import.py status", command, dict(os.environ), expected=b"nothing is under way\n")


def _commit(name: str, release: Mapping[str, str]) -> bytes:
    out = [f"commit refs/tags/{name}\ncommitter A <a@example.com> 1 +0000\ndata 0\n\n".encode()]
    for path, text in release.items():
        data = text.encode()
        out.append(b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(data), data))
    return b"".join(out)


def _write(root: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def _git(repository: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(
        ["git", *arguments],
        cwd=repository,
        env=_ENVIRONMENT,
        input=stdin,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
