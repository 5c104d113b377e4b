# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from third_party.pypi.unpack_wheel import UnpackError, unpack


def _wheel(path: Path, entries: dict[str, int]) -> Path:
    """Write a wheel. `entries` maps file names to modes; each file contains its own name."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, mode in entries.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, name)
    return path


def _listing(site: Path) -> dict[str, tuple[str, int, float]]:
    return {
        str(path.relative_to(site)): (
            path.read_text(),
            path.stat().st_mode & 0o777,
            path.stat().st_mtime,
        )
        for path in site.rglob("*")
        if path.is_file()
    }


def test_layout_is_that_of_an_installed_target(tmp_path: Path) -> None:
    wheel = _wheel(
        tmp_path / "x-1-py3-none-any.whl",
        {
            "x/__init__.py": 0o644,
            "x/tool": 0o755,
            "x-1.data/scripts/run": 0o644,
            "x-1.data/purelib/y.py": 0o644,
            "x-1.data/platlib/z.so": 0o755,
            "x-1.data/data/share/man/x.1": 0o600,
            "x-1.dist-info/RECORD": 0o644,
        },
    )
    unpack(wheel, tmp_path / "site")
    listing = _listing(tmp_path / "site")
    modes = {name: mode for name, (_, mode, _) in listing.items()}
    assert modes == {
        "x/__init__.py": 0o644,
        "x/tool": 0o755,
        "bin/run": 0o755,
        "y.py": 0o644,
        "z.so": 0o755,
        "share/man/x.1": 0o644,
        "x-1.dist-info/RECORD": 0o644,
    }
    assert listing["bin/run"][0] == "x-1.data/scripts/run"
    assert not (tmp_path / "site.partial").exists()


def test_equal_contents_give_equal_directories(tmp_path: Path) -> None:
    entries = {"b.py": 0o644, "a/c.py": 0o664}
    one = _wheel(tmp_path / "one.whl", entries)
    two = _wheel(tmp_path / "two.whl", dict(reversed(entries.items())))
    unpack(one, tmp_path / "1")
    unpack(two, tmp_path / "2")
    assert _listing(tmp_path / "1") == _listing(tmp_path / "2")


def test_what_a_killed_run_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "site.partial").mkdir()
    (tmp_path / "site.partial" / "old.py").touch()
    unpack(_wheel(tmp_path / "x.whl", {"x.py": 0o644}), tmp_path / "site")
    assert list(_listing(tmp_path / "site")) == ["x.py"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["../evil.py"], "outside the wheel"),
        (["/evil.py"], "outside the wheel"),
        (["x/BUILD"], "Bazel package"),
        (["x-1.data/headers/x.h"], "of the kind 'headers'"),
        (["y.py", "x-1.data/purelib/y.py"], "both unpack to 'y.py'"),
    ],
)
def test_refuses(tmp_path: Path, names: list[str], message: str) -> None:
    wheel = _wheel(tmp_path / "x-1-py3-none-any.whl", dict.fromkeys(names, 0o644))
    with pytest.raises(UnpackError, match=message) as caught:
        unpack(wheel, tmp_path / "site")
    assert "x-1-py3-none-any.whl" in str(caught.value)
    assert not (tmp_path / "site").exists()
