# SPDX-License-Identifier: Apache-2.0
"""Test a wheel's members and RECORD, and that its bytes are deterministic."""

from __future__ import annotations

import base64
import csv
import hashlib
import zipfile
from pathlib import Path

import pytest

from tools.wheel import archive

_INFO = "hello-1.0.dist-info"
_FILES = {
    f"{_INFO}/METADATA": b"Name: hello\n",
    "hello/__init__.py": b"",
    "hello/_C.so": bytes(range(256)) * 64,
}


def _write(folder: Path, files: dict[str, bytes], tag: str = "cp311-cp311-linux_x86_64") -> Path:
    output = folder / f"hello-1.0-{tag}.whl"
    archive.write(output, tag=tag, files=files, info=_INFO)
    return output


def test_record_has_every_file_with_its_hash_and_size(tmp_path: Path) -> None:
    with zipfile.ZipFile(_write(tmp_path, _FILES)) as wheel:
        names = wheel.namelist()
        rows = {row[0]: row[1:] for row in csv.reader(wheel.read(names[-1]).decode().splitlines())}
        assert names[-1] == f"{_INFO}/RECORD"
        assert sorted(rows) == sorted(names) == sorted([*_FILES, f"{_INFO}/WHEEL", names[-1]])
        assert rows.pop(f"{_INFO}/RECORD") == ["", ""]
        for name, (digest, size) in rows.items():
            content = wheel.read(name)
            assert len(content) == int(size)
            unpadded = digest.removeprefix("sha256=")
            padded = unpadded + "=" * (-len(unpadded) % 4)
            assert base64.urlsafe_b64decode(padded) == hashlib.sha256(content).digest()


def test_the_metadata_comes_last_and_says_what_it_is_for(tmp_path: Path) -> None:
    with zipfile.ZipFile(_write(tmp_path, _FILES)) as wheel:
        below = [name.startswith(f"{_INFO}/") for name in wheel.namelist()]
        assert below == sorted(below)
        about = wheel.read(f"{_INFO}/WHEEL").decode()
    assert "Root-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n" in about


def test_a_library_without_native_code_is_pure(tmp_path: Path) -> None:
    with zipfile.ZipFile(_write(tmp_path, _FILES, "py3-none-any")) as wheel:
        assert b"Root-Is-Purelib: true\n" in wheel.read(f"{_INFO}/WHEEL")


def test_same_content_same_bytes(tmp_path: Path) -> None:
    first = _write(tmp_path, _FILES).read_bytes()
    again = _write(tmp_path, dict(reversed(_FILES.items()))).read_bytes()
    assert first == again
    assert [path.name for path in tmp_path.iterdir()] == ["hello-1.0-cp311-cp311-linux_x86_64.whl"]


@pytest.mark.parametrize("path", ["/etc/passwd", "hello/../../x"])
def test_a_path_outside_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(archive.WheelError, match=f"'{path}' is not a path in a wheel"):
        _write(tmp_path, {path: b""})
    assert list(tmp_path.iterdir()) == []
