# SPDX-License-Identifier: Apache-2.0
"""Rebase our patches along an upstream history in which they land one by one.

One patch lands as part of a larger commit, one lands modified, and one lands and is later reverted.
Other commits in between move files, and add and remove similar blocks.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.importer.engine.base import record_base
from tools.importer.engine.carry import Carry, carry
from tools.importer.engine.outcome import Decision, Resolved, Skip
from tools.importer.engine.real_git import RealGit
from tools.importer.engine.scenario import Files, make_scenario, next_scenario, over, patched
from tools.importer.series import load_series
from tools.importer.snapshot import DictSnapshot

_BACKEND = '''\
"""Loads device backends."""

import importlib
import os


def names():
    found = os.environ.get("BACKENDS", "")
    return found.split(",")


def load(name):
    try:
        module = importlib.import_module(name)
    except ImportError:
        return None
    return module


def load_all():
    loaded = []
    for name in names():
        try:
            module = importlib.import_module(name)
        except ImportError:
            return None
        loaded.append(module)
    return loaded


def close(name):
    module = load(name)
    module.close()
'''
_CACHE = '''\
"""Where compiled kernels are kept."""

import os
import tempfile


def directory():
    return os.path.join(tempfile.gettempdir(), "kernels")


def path_of(key):
    name = key + ".bin"
    return os.path.join(directory(), name)


def forget(key):
    os.remove(path_of(key))
'''
_RUN = "#!/bin/sh\nset -e\nexec python3 -m backend\n"

# Our patches: `strip` removes spaces around names, `cache` lets KERNELS set the directory, and
# `guard` skips close() if there is no module.
_STRIP = ('return found.split(",")', 'return [name.strip() for name in found.split(",") if name]')
_DIRECTORY = (
    'return os.path.join(tempfile.gettempdir(), "kernels")',
    'return os.environ.get("KERNELS") or os.path.join(tempfile.gettempdir(), "kernels")',
)
_GUARD = ("    module.close()\n", "    if module is not None:\n        module.close()\n")


def _put(files: Files, path: str, *changes: tuple[str, str]) -> Files:
    text = files[path].data.decode()
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return over(files, {path: text})


@pytest.fixture(name="history", scope="module")
def _history(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Files]:
    """Commit each tree to a git repository, and return the trees keyed by commit subject."""
    git = RealGit(tmp_path_factory.mktemp("upstream"))
    now = over({}, {"lib/backend.py": _BACKEND, "lib/cache.py": _CACHE, "run": _RUN})
    commits = {"start": git.commit("main", now, "start")}

    def commit(subject: str, files: Files) -> Files:
        commits[subject] = git.commit("main", files, subject)
        return files

    now = commit("imports", _put(now, "lib/backend.py", ("import os\n", "import os\nimport sys\n")))
    now = commit(
        "bigger",  # this commit contains the patch `strip`
        _put(
            _put(
                now,
                "lib/backend.py",
                _STRIP,
                ("def names():\n", "def names() -> list[str]:\n"),
                ('"BACKENDS", ""', '"BACKENDS", "cpu"'),
            ),
            "lib/cache.py",
            ('".bin"', '".kernel"'),
        ),
    )
    now = commit(
        "tweak",  # this commit contains the patch `cache`, with a different variable name
        _put(
            now, "lib/cache.py", (_DIRECTORY[0], _DIRECTORY[1].replace("KERNELS", "KERNEL_CACHE"))
        ),
    )
    now = commit("guard", _put(now, "lib/backend.py", _GUARD))
    now = commit(
        "more",
        _put(now, "lib/backend.py", ("def close(name):\n", "def close(name, *, force=False):\n")),
    )
    now = commit("revert", _put(now, "lib/backend.py", (_GUARD[1], _GUARD[0])))
    now = commit(
        "move",
        over(
            {path: blob for path, blob in now.items() if path != "lib/backend.py"},
            {"lib/devices/backend.py": now["lib/backend.py"]},
        ),
    )
    return {subject: git.files(commit) for subject, commit in commits.items()}


def _series(start: Files) -> list[tuple[str, dict[str, str]]]:
    strip = _put(start, "lib/backend.py", _STRIP)
    guard = _put(strip, "lib/backend.py", _GUARD)
    cache = _put(guard, "lib/cache.py", _DIRECTORY)
    return [
        ("strip", {"lib/backend.py": strip["lib/backend.py"].data.decode()}),
        ("guard", {"lib/backend.py": guard["lib/backend.py"].data.decode()}),
        ("cache", {"lib/cache.py": cache["lib/cache.py"].data.decode()}),
    ]


_FROM_START = {
    "start": "clean clean clean",
    "imports": "offset offset clean",
    "bigger": "landed offset clean",
    "tweak": "landed offset suspected",
    "guard": "landed landed suspected",
    "more": "landed landed suspected",
    "revert": "landed 3-way suspected",
    "move": "landed 3-way suspected",
}


@pytest.mark.parametrize("subject", _FROM_START)
def test_from_the_start_to_each_commit(
    tmp_path: Path, history: dict[str, Files], subject: str
) -> None:
    start = history["start"]
    scenario = make_scenario(tmp_path, start, _series(start))
    carried = scenario.to(history[subject], keep_going=True)
    outcomes = " ".join(result.outcome.value for result in carried.results)
    assert outcomes == _FROM_START[subject]
    backend = "lib/devices/backend.py" if subject == "move" else "lib/backend.py"
    text = {**history[subject], **carried.files}[backend]
    assert text is not None
    assert text.data.count(b"name.strip()") == 1
    assert text.data.count(b"if module is not None:") == 1


def test_commit_by_commit(tmp_path: Path, history: dict[str, Files]) -> None:
    """Import the commits one by one. Landed patches are dropped, and the others are rebased."""
    names = list(history)
    scenario = make_scenario(tmp_path / "start", history["start"], _series(history["start"]))
    decided: dict[str, Decision] = {}
    remaining: dict[str, str] = {}
    for subject in names[1:]:
        new = history[subject]
        carried = _carry(scenario.series.root, scenario.old, new, decided)
        if carried.stopped:
            assert (subject, carried.stopped.patch.name) == ("tweak", "cache.patch")
            assert "KERNEL_CACHE" in carried.stopped.files[0].inner
            decided["cache.patch"] = Skip()
            carried = _carry(scenario.series.root, scenario.old, new, decided)
        remaining[subject] = " ".join(
            result.patch.name[:-6] for result in carried.results if not result.outcome.drops
        )
        if not remaining[subject]:
            break
        scenario = next_scenario(tmp_path / subject, carried, new)
        assert patched(scenario)["lib/backend.py"].data.count(b"if module is not None") == 1
    assert remaining == {
        "imports": "strip guard cache",
        "bigger": "guard cache",
        "tweak": "guard",
        "guard": "",
    }


def _carry(root: Path, old: Files, new: Files, decisions: dict[str, Decision]) -> Carry:
    series = load_series(root)
    base = record_base(series, DictSnapshot("old", old))
    return carry(series, base, DictSnapshot("new", new), decisions=decisions)


def test_a_person_keeps_ours_where_upstream_has_a_tweak(
    tmp_path: Path, history: dict[str, Files]
) -> None:
    start, new = history["start"], history["tweak"]
    scenario = make_scenario(tmp_path / "a", start, _series(start))
    resolved = _put(new, "lib/cache.py", ('"KERNEL_CACHE"', '"KERNELS"'))["lib/cache.py"]
    decision = {"cache.patch": Resolved({"lib/cache.py": resolved})}
    carried = carry(scenario.series, scenario.base, DictSnapshot("new", new), decisions=decision)
    assert [result.outcome.value for result in carried.results] == ["landed", "offset", "resolved"]
    after = next_scenario(tmp_path / "b", carried, new)
    assert patched(after)["lib/cache.py"] == resolved
    assert b'-    return os.environ.get("KERNEL_CACHE")' in carried.series_files()["cache.patch"]
