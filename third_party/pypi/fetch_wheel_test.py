# SPDX-License-Identifier: Apache-2.0
"""fetch() calls pip with the right arguments, and reports pip's failures. pip is a fake."""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from third_party.pypi import fetch_wheel
from third_party.pypi.fetch_wheel import FetchError, Pin, fetch

_BYTES = b"a wheel"
_PIN = Pin(
    "numpy==2.4.6",
    "numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl",
    hashlib.sha256(_BYTES).hexdigest(),
    "third_party/pypi/lock.json",
)
_NONE = "ERROR: No matching distribution found for numpy==2.4.6"
_BROKEN = f"WARNING: Retrying (Retry(total=0)) after connection broken\n{_NONE}"
_WRONG_HASH = f"ERROR: THESE PACKAGES DO NOT MATCH THE HASHES\n  Got        {'b' * 64}"
_EXTRA = "http://127.0.0.1:9/simple"


@dataclass
class _Pip:
    """A fake pip with one result per call: the bytes of a wheel, or an error message."""

    answers: list[bytes | str]
    filename: str = _PIN.filename
    calls: list[Sequence[str]] = field(default_factory=list)

    def __call__(
        self, arguments: Sequence[str], directory: Path
    ) -> subprocess.CompletedProcess[str]:
        self.calls.append(arguments)
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            return subprocess.CompletedProcess(arguments, 1, "", answer)
        (directory / self.filename).write_bytes(answer)
        return subprocess.CompletedProcess(arguments, 0, "", "")


def _fetch(pip: _Pip, tmp_path: Path, pin: Pin = _PIN, extra_index: str | None = None) -> Path:
    return fetch(pin, tmp_path, extra_index=extra_index, run=pip, sleep=lambda _: None)


def test_asks_for_the_hash_and_the_target_only(tmp_path: Path) -> None:
    pip = _Pip([_BYTES])
    assert _fetch(pip, tmp_path).read_bytes() == _BYTES
    (call,) = pip.calls
    options = ("--require-hashes", "--no-deps", "--only-binary=:all:", "--python-version=3.11")
    assert set(options) <= set(call)
    requirement = (tmp_path / "requirements.txt").read_text()
    assert requirement == f"numpy==2.4.6 --hash=sha256:{_PIN.sha256}\n"


def test_the_update_of_a_lock_of_another_workspace_is_named(tmp_path: Path) -> None:
    pin = dataclasses.replace(_PIN, source="//:mine.lock.json")
    with pytest.raises(FetchError, match="run @torch_google//third_party/pypi:update for it"):
        fetch(pin, tmp_path, run=_Pip([b"other"]), sleep=lambda _: None)


@pytest.mark.parametrize(
    ("source", "next_step"),
    [
        ("third_party/torch/pin.json", r"pin\.json and run third_party/pypi/update\.py"),
        ("third_party/cuda/pin.json", r"edit third_party/cuda/pin\.json\.$"),
        ("third_party/torch/cuda/pin.json", r"run third_party/torch/cuda/update\.py"),
        ("third_party/torch/newer/lock.json", r"run third_party/torch/newer/update\.py"),
    ],
)
def test_the_update_of_a_pin_is_named(tmp_path: Path, source: str, next_step: str) -> None:
    pin = dataclasses.replace(_PIN, source=source)
    with pytest.raises(FetchError, match=next_step):
        fetch(pin, tmp_path, run=_Pip([b"other"]), sleep=lambda _: None)


@pytest.mark.parametrize(
    ("answer", "sha256"),
    [(_WRONG_HASH, "b" * 64), (b"other", hashlib.sha256(b"other").hexdigest())],
)
def test_wrong_hash(tmp_path: Path, answer: bytes | str, sha256: str) -> None:
    pip = _Pip([answer])
    with pytest.raises(FetchError) as caught:
        _fetch(pip, tmp_path, extra_index=_EXTRA)
    assert sha256 in str(caught.value)
    assert _PIN.sha256 in str(caught.value)
    assert "third_party/pypi/update.py" in str(caught.value)
    assert len(pip.calls) == 1, "a wrong hash must not lead to another index"


def test_wrong_platform_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    pip = _Pip([])
    pin = Pin(_PIN.requirement, "numpy-2.4.6-cp312-cp312-win_amd64.whl", _PIN.sha256, _PIN.source)
    with pytest.raises(FetchError, match=r"is not a wheel for CPython 3.11 on Linux x86-64"):
        _fetch(pip, tmp_path, pin)
    assert not pip.calls


def test_another_file_than_the_pinned_one_is_refused(tmp_path: Path) -> None:
    pip = _Pip([_BYTES], filename="numpy-2.4.6-py3-none-any.whl")
    with pytest.raises(FetchError, match=r"pip brought numpy-2.4.6-py3-none-any.whl"):
        _fetch(pip, tmp_path)


def test_failed_connections_are_tried_again(tmp_path: Path) -> None:
    pip = _Pip([_BROKEN, _BROKEN, _BYTES])
    assert _fetch(pip, tmp_path).exists()


def test_a_plain_no_is_not_tried_again(tmp_path: Path) -> None:
    pip = _Pip([_NONE])
    with pytest.raises(FetchError, match=r"No matching distribution found for numpy==2.4.6"):
        _fetch(pip, tmp_path)


def test_the_extra_index_is_not_asked_when_the_users_own_have_it(tmp_path: Path) -> None:
    pip = _Pip([_BYTES])
    _fetch(pip, tmp_path, extra_index=_EXTRA)
    assert _EXTRA not in " ".join(pip.calls[0])


def test_the_extra_index_is_asked_last_and_once(tmp_path: Path) -> None:
    pip = _Pip([_NONE, _BYTES])
    _fetch(pip, tmp_path, extra_index=_EXTRA)
    assert f"--index-url={_EXTRA}" in pip.calls[1]
    assert "--retries=1" in pip.calls[1]


def test_a_variable_replaces_the_extra_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_GOOGLE_TORCH_INDEX", "http://127.0.0.1:1/own")
    pip = _Pip([_NONE, _BYTES])
    _fetch(pip, tmp_path, extra_index=_EXTRA)
    assert "--index-url=http://127.0.0.1:1/own" in pip.calls[1]


def test_a_dead_extra_index_is_told_with_the_way_out(tmp_path: Path) -> None:
    pip = _Pip([_NONE, _BROKEN])
    with pytest.raises(FetchError) as caught:
        _fetch(pip, tmp_path, extra_index=_EXTRA)
    message = str(caught.value)
    assert f"{_EXTRA} (No matching distribution" in message
    assert "after failed connections" in message
    assert "find-links" in message
    assert "\n" not in message


def test_the_command_says_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    result = subprocess.run(
        [
            sys.executable,
            fetch_wheel.__file__,
            "--requirement=numpy==2.4.6",
            "--filename=numpy-2.4.6-cp312-cp312-win_amd64.whl",
            f"--sha256={_PIN.sha256}",
            "--source=third_party/pypi/lock.json",
            f"--site={tmp_path / 'site'}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.startswith("third_party/pypi/lock.json: numpy==2.4.6: ")
    assert result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
