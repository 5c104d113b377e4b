# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from third_party.pypi import fetch_wheel, lock, torch_metadata

_LOCK = lock.loads(lock.FILE.read_text())


def test_needs_are_read_from_the_pinned_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(pin: fetch_wheel.Pin, directory: Path, *, extra_index: str | None) -> Path:
        assert extra_index is None or extra_index.startswith("https://")
        wheel = directory / pin.filename
        with zipfile.ZipFile(wheel, "w") as archive:
            # read() must ignore the metadata of a vendored distribution.
            archive.writestr("torch/_vendor/x-1.dist-info/METADATA", "Requires-Dist: wrong\n")
            archive.writestr(
                "torch-1.dist-info/METADATA", "Name: torch\nRequires-Dist: a\nRequires-Dist: b>1\n"
            )
        return wheel

    monkeypatch.setattr(fetch_wheel, "fetch", fetch)
    assert torch_metadata.read() == ("a", "b>1")


def test_the_stand_in_has_the_metadata_and_no_code(tmp_path: Path) -> None:
    requirement = lock.torch_requirement(lock.TORCH_PIN.read_text())
    wheel = torch_metadata.write_stand_in(tmp_path, requirement, ("filelock", 'x; extra == "y"'))
    with zipfile.ZipFile(wheel) as archive:
        info = wheel.name.split("-1-")[0] + ".dist-info"
        text = archive.read(f"{info}/METADATA").decode()
    version = requirement.removeprefix("torch==")
    assert f"\nVersion: {version}\n" in text
    assert text.endswith('Requires-Dist: filelock\nRequires-Dist: x; extra == "y"\n')
    assert wheel.stat().st_size < 2000


def test_the_lock_has_the_needs_of_torch() -> None:
    keys = {lock.requirement_key(line) for line in _LOCK.torch_needs if "extra ==" not in line}
    assert keys == set(_LOCK.torch_requires)
