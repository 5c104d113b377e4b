# SPDX-License-Identifier: Apache-2.0
"""host_pip finds or fetches pip. Fake apt-get and dpkg-deb programs provide the wheel."""

from __future__ import annotations

import os
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from third_party.pypi import host_pip

# A fake apt-get. `update` succeeds. `download` fails if FAKE_LISTS is `dead`; if it is `none`,
# `download` succeeds only if the caller sets its own directory of package lists.
_APT_GET = """#!/bin/sh
echo "$*" >>"$FAKE_LOG"
case "$*" in
*update) exit 0 ;;
*Dir::State::lists*download*) ;;
*) [ "$FAKE_LISTS" = none ] && { echo "E: No packages found" >&2; exit 100; } ;;
esac
[ "$FAKE_LISTS" = dead ] && { echo "E: Unable to fetch" >&2; exit 100; }
: >python3-pip-whl_1_all.deb
"""
_DPKG_DEB = """#!/bin/sh
mkdir -p "$3/usr/share/python-wheels"
cp "$FAKE_WHEEL" "$3/usr/share/python-wheels/"
"""


@pytest.fixture
def bare_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Fake a host without pip. Fake apt-get and dpkg-deb programs are first on PATH."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in {"apt-get": _APT_GET, "dpkg-deb": _DPKG_DEB}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    wheel = tmp_path / "pip-23.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pip/__main__.py", "print('pip 23.0')")
    # Instead of running pip, check that its wheel is a complete zip file.
    monkeypatch.setattr(host_pip, "_runs", lambda argv: zipfile.is_zipfile(Path(argv[1]).parent))
    monkeypatch.setattr("site.getsitepackages", list)
    monkeypatch.setattr(host_pip, "_DEBIAN_WHEELS", tmp_path / "none")
    monkeypatch.setattr(host_pip, "ensurepip_wheels", lambda: None)
    monkeypatch.setenv("PATH", f"{tools}:{os.defpath}")
    monkeypatch.setenv("FAKE_WHEEL", str(wheel))
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    return tmp_path


def test_the_interpreters_own_pip_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("site.getsitepackages", list)
    monkeypatch.setattr(host_pip, "_runs", lambda argv: argv[1] == "-c")
    assert host_pip.find(cache=tmp_path).argv == (sys.executable, "-m", "pip")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("directory", ["", "bin"])
@pytest.mark.parametrize("is_environment", [False, True])
def test_no_process_starts_if_pips_files_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: str, is_environment: bool
) -> None:
    checks: list[tuple[str, ...]] = []
    packages = tmp_path / "lib/site-packages"
    (packages / "pip/_internal").mkdir(parents=True)
    monkeypatch.setattr("site.getsitepackages", lambda: [str(packages)])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python3"))

    def works(argv: tuple[str, ...]) -> bool:
        checks.append(argv)
        return True

    monkeypatch.setattr(host_pip, "_runs", works)
    if is_environment:  # Its packages are not those that `site` names, so they must be tried.
        (tmp_path / directory / "pyvenv.cfg").parent.mkdir(exist_ok=True)
        (tmp_path / directory / "pyvenv.cfg").touch()
    assert host_pip.find(cache=tmp_path / "cache").argv == (sys.executable, "-m", "pip")
    assert len(checks) == is_environment


def test_a_wheel_on_the_disk_comes_next(bare_host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_pip, "ensurepip_wheels", lambda: bare_host)
    pip = host_pip.find(cache=bare_host / "cache")
    assert pip.root == bare_host / "pip-23.0-py3-none-any.whl"
    assert not (bare_host / "cache").exists()


def test_the_pip_of_another_python3_comes_last(
    bare_host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = bare_host / "bin/python3"
    python.write_text("#!/bin/sh\necho /host/site-packages/pip\n")
    python.chmod(0o755)
    monkeypatch.setattr(host_pip, "_runs", lambda argv: argv[1] == "/host/site-packages/pip")
    assert host_pip.find(cache=bare_host / "cache") == host_pip.Pip(
        (sys.executable, "/host/site-packages/pip"), Path("/host/site-packages")
    )
    assert not (bare_host / "cache").exists()


def test_constraints_do_not_apply_to_pinned_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONSTRAINT", "constraints.txt")
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror/simple")
    environment = host_pip.environment()
    # pip takes an empty value for a missing one, and reads the constraints that pip.conf names.
    assert environment["PIP_CONSTRAINT"]
    assert Path(environment["PIP_CONSTRAINT"]).read_bytes() == b""
    assert environment["PIP_INDEX_URL"] == "https://mirror/simple"


@pytest.mark.parametrize(("lists", "calls"), [("fresh", 1), ("none", 3)])
def test_debians_is_fetched_once(
    bare_host: Path, monkeypatch: pytest.MonkeyPatch, lists: str, calls: int
) -> None:
    monkeypatch.setenv("FAKE_LISTS", lists)
    cache = bare_host / "cache"
    first = host_pip.find(cache=cache)
    assert first.root == cache / "pip-23.0-py3-none-any.whl"
    assert host_pip.find(cache=cache) == first
    assert len((bare_host / "log").read_text().splitlines()) == calls
    assert sorted(path.name for path in cache.iterdir()) == ["lock", first.root.name]


def test_starts_at_once_fetch_once(bare_host: Path) -> None:
    pips: list[host_pip.Pip] = []
    threads = [
        threading.Thread(target=lambda: pips.append(host_pip.find(cache=bare_host / "cache")))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pips) == 4
    assert len(set(pips)) == 1
    assert len((bare_host / "log").read_text().splitlines()) == 1


def test_a_dead_mirror_is_told(bare_host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_LISTS", "dead")
    with pytest.raises(host_pip.NoPipError, match=r"exited 100: E: Unable to fetch. Install pip"):
        host_pip.find(cache=bare_host / "cache")


def test_no_apt_is_told(bare_host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(bare_host / "none"))
    with pytest.raises(host_pip.NoPipError, match="needs apt-get, which is missing"):
        host_pip.find(cache=bare_host / "cache")


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert host_pip.cache_directory() == Path("/x/torch_google")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/y")
    assert host_pip.cache_directory() == Path("/home/y/.cache/torch_google")
