# SPDX-License-Identifier: Apache-2.0
"""Find or install the Bazel version in .bazelversion, write its launcher, and exec it."""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.bazel import debian_bazel, npm_bazelisk, path_bazel
from tools.bazel.launcher import Launcher, Unavailable, write_atomically

Provider = Callable[[], Launcher]


def main(argv: Sequence[str]) -> int:
    """Write and exec the launcher script. Return an exit status only if that fails."""
    # Split at the first "--", because Bazel's own arguments may contain another one, which would
    # confuse argparse.
    end = argv.index("--")
    bazel_arguments = argv[end + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, epilog="After --: Bazel's arguments.")
    parser.add_argument("--root", type=Path, required=True, help="the workspace")
    parser.add_argument("--launcher", type=Path, required=True, help="the launcher to write")
    options = parser.parse_args(argv[:end])
    version = (options.root / ".bazelversion").read_text().strip()
    try:
        set_up(root=options.root, launcher=options.launcher, version=version)
    except Unavailable as error:
        _say(str(error))
        return 1
    except OSError as error:
        _say(
            f"cannot set up Bazel {version}: {error}. "
            "Repair that, or set XDG_CACHE_HOME to a directory with 1 GB of free space, and run again"
        )
        return 1
    except KeyboardInterrupt:
        _say("interrupted; run it again to continue")
        return 130
    os.execv(options.launcher, [str(options.launcher), str(options.root), *bazel_arguments])


def set_up(*, root: Path, launcher: Path, version: str) -> None:
    """Write the script `launcher` if it does not exist, while holding a lock."""
    cache = launcher.parent
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock") as lock:
        if os.access(launcher, os.X_OK):
            return
        _say(
            f"setting up Bazel {version} in {cache}, once "
            "(a minute or two: 60 to 100 MB to download, 300 MB on disk)"
        )
        start = time.monotonic()
        providers: dict[str, Provider] = {
            "on PATH": lambda: path_bazel.provide(root=root, version=version),
            "from npm": lambda: npm_bazelisk.provide(root=root, version=version, cache=cache),
            "from Debian": lambda: debian_bazel.provide(version=version, cache=cache, lock=lock),
        }
        if debian_bazel.is_set_up(cache):
            del providers["from npm"]  # Debian's Bazel exists because npm failed; a retry is slow
        bazel = first_available(providers, version=version)
        rc = cache / "bazelrc"
        write_atomically(rc, shared_rc(cache.parent))
        write_atomically(launcher, bazel.script(rc=rc), mode=0o755)
        _say(f"Bazel {version} is {bazel.source}, ready in {time.monotonic() - start:.0f} s")


def first_available(providers: dict[str, Provider], *, version: str) -> Launcher:
    """Return a launcher from the first provider that works. Raises Unavailable if none does."""
    reasons = []
    for name, provide in providers.items():
        try:
            return provide()
        except Unavailable as error:
            reasons.append(f"  {name}: {error}")
    tried = "\n".join(reasons)
    raise Unavailable(
        f"no way to get Bazel {version}. Tried:\n{tried}\n"
        f"Put a Bazel {version} (or a bazelisk that can download it) on PATH, or give this machine "
        "network access to one of these, and run bazelw again."
    )


def shared_rc(directory: Path) -> str:
    """Return a bazelrc that enables a disk cache under `directory`, the user's cache directory."""
    return (
        "# Written by tools/bazel. Results are shared between clones and survive `bazel clean`.\n"
        f"common --disk_cache={directory / 'disk'}\n"
        "# The server evicts old entries while it is idle.\n"
        "common --experimental_disk_cache_gc_max_size=20G\n"
    )


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Hold a lock until this process and all tools that inherit its file descriptor have exited."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"waiting for another bazelw to set up Bazel (lock {path})")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _say(text: str) -> None:
    print(f"bazelw: {text}", file=sys.stderr, flush=True)
