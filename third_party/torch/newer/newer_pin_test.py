# SPDX-License-Identifier: Apache-2.0
"""Test offline that the newer release's pin, lock, series and flag agree."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from third_party.pypi import agreement, lock
from third_party.torch.cuda.wheel_metadata import WheelError
from third_party.torch.newer import update

_PIN = json.loads(update.PIN.read_text())
_LOCK = lock.loads(update.LOCK.read_text())
_MAIN = lock.loads(lock.FILE.read_text())
_LINES = "".join(f"{line}\n" for line in _PIN["requires"])
_ROOM = update.PIN.parents[1]
_UPDATE = "Run third_party/torch/newer/update.py."


def test_the_pin_is_of_the_release_that_the_series_is_for() -> None:
    release = update.release(_PIN["tag"])
    assert (_PIN["tag"], _PIN["commit"]) == (release.tag, release.commit), _UPDATE
    assert f"v{_PIN['version'].partition('+')[0]}" == _PIN["tag"]
    assert (_ROOM.parents[1] / "patches/torch" / _PIN["tag"] / "series").exists()


def test_the_pinned_release_is_newer_than_the_default() -> None:
    tags = (_PIN["tag"], json.loads(lock.TORCH_PIN.read_text())["tag"])
    newer, default = ([int(part) for part in tag[1:].split(".")] for tag in tags)
    assert newer > default, (
        "It is not newer than the default: remove third_party/torch/newer, or pin a newer release"
    )


def test_the_flag_selects_the_pinned_release() -> None:
    text = (_ROOM / "BUILD").read_text()
    values = re.search(r'name = "release",.*?values = \[(.*?)\]', text, re.DOTALL)
    assert values
    assert f'"{_PIN["tag"]}"' in values[1]
    assert f'name = "is_newer",\n    flag_values = {{":release": "{_PIN["tag"]}"}}' in text


def test_the_lock_has_what_the_pin_requires() -> None:
    assert agreement.group_problems("torch_newer", _LOCK, _MAIN, requirements=_LINES) == []
    assert update.LOCK.read_text() == _LOCK.dumps(), _UPDATE
    assert "://" not in update.LOCK.read_text()


def test_the_main_lock_satisfies_the_other_requirements() -> None:
    # Requirements that the CPU wheel of the default release has in the same words are not in the
    # pin: agreement_test checks these.
    resolved_with = {key: _MAIN.packages[key].version for key in _LOCK.resolved_with}
    assert _LOCK.resolved_with == resolved_with, _UPDATE
    assert {"typing_extensions"} <= resolved_with.keys()
    stricter = "".join([_LINES, "typing-extensions>=99\n"])
    (problem, _) = agreement.group_problems("g", _LOCK, _MAIN, requirements=stricter)
    assert "'typing-extensions>=99', but lock.json has" in problem


def test_all_nvidia_wheels_are_marked_as_the_cuda_toolkit() -> None:
    rows = {
        **json.loads(lock.ANNOTATIONS.read_text()),
        **json.loads(update.ANNOTATIONS.read_text()),
    }
    marked = {key for key, row in rows.items() if row.get("toolkit") == "cuda"}
    assert {key for key in _LOCK.packages if key.startswith("nvidia_")} <= marked


def test_annotations_cover_only_packages_of_this_lock() -> None:
    rows = json.loads(update.ANNOTATIONS.read_text())
    assert rows.keys() <= _LOCK.packages.keys()
    assert not rows.keys() & json.loads(lock.ANNOTATIONS.read_text()).keys()
    assert all(row["why"].endswith(".") for row in rows.values())


def test_a_release_without_a_series_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(WheelError, match=r"--tag v9.0: no patches/torch/v9.0/base.json. Import"):
        update.release("v9.0", tmp_path)
