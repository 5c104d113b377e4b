# SPDX-License-Identifier: Apache-2.0
"""Run the README's steps, beginning with `init`, on small replicas of real libraries.

The releases are modeled on absl-py 1.4.0, 2.1.0 and 2.3.0, on fsspec (small_histories.py) and on
accelerate. Each is imported both as an sdist and as a wheel.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tools.importer.commands.main import main
from tools.importer.commands.small_histories import (
    ABSL,
    ABSL_PATCHES,
    FSSPEC,
    FSSPEC_PATCHES,
    Edit,
    Release,
)
from tools.importer.origins.origin_fixtures import (
    commit_files,
    git,
    make_pure_wheel,
    make_sdist,
)
from tools.importer.session.faults import killed_at

_DEVICES = "".join(
    f"        elif is_{name}_available():\n            return torch.device('{name}')\n"
    for name in ("mlu", "sdaa", "musa", "npu", "hpu")
)
_STATE = (
    "class PartialState:\n    def default_device(self):\n        if is_mps_available():\n"
    f"            return torch.device('mps')\n{_DEVICES}        else:\n"
    "            return torch.device('cpu')\n"
)
_ACCELERATE = {
    "1.10.0": {"accelerate/__init__.py": "", "accelerate/state.py": _STATE},
    "1.11.0": {
        "accelerate/__init__.py": "",
        "accelerate/state.py": _STATE.replace(
            "        else:",
            "        elif is_neuron_available():\n            return torch.device('neuron')\n        else:",
        ),
    },
}
_DEVICE = (
    "            return torch.device('cpu')",
    "            return torch.accelerator.current_accelerator() or torch.device('cpu')",
)


class _Index:
    """A workspace, and a directory of releases that pip uses as its index."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self.index, self._capsys = root / "workspace", root / "index", capsys
        (self.root / "third_party").mkdir(parents=True, exist_ok=True)

    def publish(self, name: str, releases: Mapping[str, Release], *, src: bool) -> None:
        for version, files in releases.items():
            data = {path: text.encode() for path, text in files.items()}
            make_pure_wheel(self.index, name, version, data)
            moved = {f"src/{path}" if src else path: text for path, text in data.items()}
            make_sdist(
                self.index, name, version, {**moved, "tests/test_x.py": b"", "setup.py": b""}
            )

    def run(self, *arguments: str) -> int:
        return main(["--workspace", str(self.root), *arguments])

    def ok(self, *arguments: str) -> str:
        """Run a command, check that it succeeds, and return its output."""
        self._capsys.readouterr()
        code = self.run(*arguments)
        out, err = self._capsys.readouterr()
        assert code == 0, f"{arguments}: {code}: {out}{err}"
        return out

    def patch(self, project: str, subject: str, path: str, *edits: tuple[str, str]) -> None:
        """Add a patch by following the README's steps."""
        self.ok(
            *("--project", project, "new", subject, path, "--owner", "us", "--reason", "build"),
            *("--upstream", "None yet", "--extension-point", "None", "--test", "t.py::t"),
        )
        file = self.root / ".import/edit/tree" / path
        text = file.read_text()
        for old, new in edits:
            assert old in text
            text = text.replace(old, new)
        file.write_text(text)
        self.ok("refresh")  # finds the project whose patch is being edited

    def patches(self, project: str, edits: Sequence[Edit]) -> None:
        for edit in edits:
            self.patch(project, edit.subject, edit.path, (edit.old, edit.new))

    def series(self, project: str, label: str) -> list[str]:
        lines = (self.root / "patches" / project / label / "series").read_text().splitlines()
        return [line for line in lines if line and not line.startswith("#")]

    def added(self, project: str, label: str) -> str:
        """Return all lines added by the patches of a series."""
        home = self.root / "patches" / project / label
        lines = [
            line
            for name in self.series(project, label)
            for line in (home / name).read_text().splitlines()
        ]
        return "".join(f"{line[1:]}\n" for line in lines if line.startswith("+"))

    def pin(self, project: str) -> dict[str, object]:
        text = (self.root / "third_party" / project / "pin.json").read_text()
        data: dict[str, object] = json.loads(text)
        return data

    def files(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and ".import" not in path.parts
        }


@pytest.fixture(name="index")
def _index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> _Index:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_CONSTRAINT", "")
    return _Index(tmp_path, capsys)


@pytest.mark.parametrize("scheme", ["pypi", "wheel"])
def test_six_patches_of_absl_over_three_releases(index: _Index, scheme: str) -> None:
    index.publish("absl-py", ABSL, src=False)
    index.ok(
        "init", "absl_py", "--origin", f"{scheme}:absl-py==1.4.0", "--at", "third_party/absl_py"
    )
    index.patches("absl_py", ABSL_PATCHES)
    names = index.series("absl_py", "v1.4.0")
    assert len(names) == 6
    assert "verified: " in index.ok("verify")
    first = index.pin("absl_py")
    # v2.1.0 contains the first patch. It also guards the stream's flush, but not in the way that
    # the second patch does.
    assert index.run("--project", "absl_py", "--tag", "v2.1.0") == 2
    assert index.run("status") == 2
    conflict = index.root / ".import/conflict/absl/logging/__init__.py"
    assert "<<<<<<< upstream v2.1.0" in conflict.read_text()
    guard = "      if self.stream and hasattr(self.stream, 'flush'):\n"
    both = ABSL["2.1.0"]["absl/logging/__init__.py"].replace(
        guard, "      if not getattr(self.stream, 'closed', True):\n"
    )
    conflict.write_text(both)
    out = index.ok("continue")
    assert f"landed upstream, dropped from the series: {names[0]}" in out
    assert index.series("absl_py", "v2.1.0") == names[1:]
    assert index.pin("absl_py")["previous"] == {
        key: first[key] for key in ("tag", "origin", "tree_hash")
    }
    assert "verified: " in index.ok("verify")
    out = index.ok("--tag", "v2.3.0")  # the only project of this workspace
    assert "5 of 5 patches" in out
    assert index.series("absl_py", "v2.3.0") == names[1:]
    assert "verified: " in index.ok("verify")
    assert index.pin("absl_py")["version"] == "2.3.0"
    assert "if not getattr(self.stream, 'closed', True):\n" in index.added("absl_py", "v2.3.0")
    assert all(edit.added in index.added("absl_py", "v2.3.0") for edit in ABSL_PATCHES[2:])
    assert "patches/absl_py/v2.3.0" in (index.root / "third_party/absl_py/METADATA").read_text()
    assert index.run("--tag", "v2.3.0") == 4
    assert index.run("metadata") == 4
    assert names[0] in index.ok("drift", "v2.1.0", "v2.3.0", "--series", "v1.4.0")
    index.ok("drop", names[1])
    assert index.run("verify") == 0


@pytest.mark.parametrize("scheme", [pytest.param("pypi", marks=pytest.mark.full), "wheel"])
def test_fsspec_over_two_releases(index: _Index, scheme: str) -> None:
    index.publish("fsspec", FSSPEC, src=False)
    index.ok(
        *("init", "fsspec", "--origin", f"{scheme}:fsspec==2025.3.0", "--tags", "{version}"),
        *("--licence", "BSD-3-Clause"),
    )
    index.patches("fsspec", FSSPEC_PATCHES)
    index.ok("--tag", "2025.5.0")
    assert "verified: " in index.ok("verify")
    assert all(edit.added in index.added("fsspec", "2025.5.0") for edit in FSSPEC_PATCHES)
    assert (
        'license_note: "BSD-3-Clause"' in (index.root / "third_party/fsspec/METADATA").read_text()
    )


@pytest.mark.parametrize("scheme", ["pypi", "wheel"])
def test_accelerate_over_two_releases(index: _Index, scheme: str) -> None:
    index.publish("accelerate", _ACCELERATE, src=True)
    index.ok("init", "accelerate", "--origin", f"{scheme}:accelerate==1.10.0")
    index.patch("accelerate", "Support the tpu device", "accelerate/state.py", _DEVICE)
    first = index.pin("accelerate")
    out = index.ok("--tag", "v1.11.0")
    assert "support-the-tpu-device.patch" in out
    assert index.added("accelerate", "v1.11.0").endswith(f"\n{_DEVICE[1]}\n")
    pin = index.pin("accelerate")
    assert pin["version"] == "1.11.0"
    assert pin["origin"]["kind"] == ("sdist" if scheme == "pypi" else "wheel")  # type: ignore[index]
    assert pin["previous"] == {key: first[key] for key in ("tag", "origin", "tree_hash")}
    assert "verified: " in index.ok("verify")


@pytest.mark.full
def test_accelerate_moves_from_sdists_to_wheels(index: _Index) -> None:
    """The sdist and the wheel have the same paths, because `src/` is stripped."""
    index.publish("accelerate", _ACCELERATE, src=True)
    index.ok("init", "accelerate", "--origin", "pypi:accelerate==1.10.0")
    index.patch("accelerate", "Support the tpu device", "accelerate/state.py", _DEVICE)
    sdist = index.ok("--tag", "v1.11.0")
    assert "support-the-tpu-device.patch" in sdist
    patch = index.root / "patches/accelerate/v1.11.0/support-the-tpu-device.patch"
    text = patch.read_text()
    assert "current_accelerator" in text
    settings = index.root / "third_party/accelerate/import.json"
    data = json.loads(settings.read_text())
    data["origins"]["wheel"] = {"project": "accelerate"}
    settings.write_text(json.dumps(data))
    index.ok("--tag", "v1.11.0", "--origin", "wheel")
    assert index.pin("accelerate")["origin"]["kind"] == "wheel"  # type: ignore[index]
    assert patch.read_text() == text
    assert "verified: " in index.ok("verify")


def test_a_project_from_git_offers_and_picks_at_upstreams_paths(
    index: _Index, tmp_path: Path
) -> None:
    upstream = tmp_path / "upstream"
    lines = [f"line {number}\n" for number in range(20)]
    files = {"src/lib/__init__.py": b"", "src/lib/a.py": "".join(lines).encode(), "docs/x": b"x"}
    commit_files(upstream, files, "v1.0")
    lines[15] = "fixed\n"
    fix = commit_files(upstream, {"src/lib/a.py": "".join(lines).encode(), "docs/x": b"y"})
    index.ok("init", "lib", "--origin", str(upstream), "--tag", "v1.0", "--licence", "MIT")
    assert json.loads((index.root / "third_party/lib/import.json").read_text())["move"] == {
        "src/": ""
    }
    out = index.ok("cherry-pick", fix, "--owner", "us", "--subject", "Fix it")
    assert "left out  docs/x" in out
    patch = (index.root / "patches/lib/v1.0/fix-it.patch").read_text()
    assert "+++ b/lib/a.py" in patch
    for key in ("user.name", "user.email"):
        commit_config(upstream, key)
    index.ok("export", "--to", str(upstream), "--onto", "v1.0")
    assert read_at(upstream, "lib/fix-it", "src/lib/a.py") == "".join(lines)
    assert "verified: " in index.ok("verify")
    index.ok("--ref", fix)
    assert index.pin("lib")["commit"] == fix
    assert index.pin("lib")["tag"] == fix[:12]


@pytest.mark.full
def test_init_killed_at_any_call_leaves_all_or_nothing(
    index: _Index, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index.publish("absl-py", {"1.4.0": ABSL["1.4.0"]}, src=False)
    command = ("init", "absl_py", "--origin", "pypi:absl-py==1.4.0")
    for number in range(1000):
        sample = _Index(tmp_path / str(number), capsys)
        killed = killed_at(number, lambda each=sample: each.run(*command))  # type: ignore[misc]
        sample.run("status")  # finishes publishing the files of a killed command
        files = sample.files()
        assert not files or "third_party/absl_py/pin.json" in files, number
        if not files:
            assert sample.run(*command) == 0
        assert sample.run("--project", "absl_py", "verify") == 0
        if not killed:
            return
    raise AssertionError("init never ended")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("absl-py", "--origin", "pypi:absl-py==1.4.0"), "cannot be the name of a project"),
        (("../x", "--origin", "pypi:x==1", "--at", "lib"), "cannot be the name of a project"),
        (("absl_py", "--origin", "pypi:absl-py"), "names no release"),
        (
            ("six", "--origin", "debian:six==1.16.0-4"),
            "Write upstream's version: debian:six==1.16.0",
        ),
        (("absl_py", "--origin", "pypi:absl-py==9"), "no v9 of absl_py"),
        (("absl_py", "--origin", "pypi:absl-py==1.4.0", "--at", "lib"), "Use third_party/absl_py"),
        (("absl_py", "--origin", "pypi:absl-py==1.4.0", "--move", "src"), "not OLD/=NEW/"),
        (("absl_py", "--origin", "pypi:absl-py==1.4.0", "--include", "x/**"), "no file that is"),
    ],
)
def test_init_with_bad_input_writes_nothing(
    index: _Index, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    index.publish("absl-py", {"1.4.0": ABSL["1.4.0"]}, src=False)
    assert index.run("init", *arguments) == 1
    err = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in err
    assert index.files() == {}


def test_init_twice(index: _Index, capsys: pytest.CaptureFixture[str]) -> None:
    index.publish("absl-py", {"1.4.0": ABSL["1.4.0"]}, src=False)
    command = ("init", "absl_py", "--origin", "pypi:absl-py==1.4.0")
    assert index.run(*command, "--dry-run") == 0
    assert index.files() == {}
    index.ok(*command)
    assert index.run(*command) == 1
    assert "import.json: already exists" in capsys.readouterr().err


def test_init_takes_upstreams_repository_from_the_package(index: _Index) -> None:
    info = "Metadata-Version: 2.1\nName: lib\nVersion: 1.0\nLicense: MIT\n"
    info += "Project-URL: Source, https://github.com/o/lib/tree/main\n"
    index.publish("lib", {"1.0": {"lib/__init__.py": "x = 1\n", "PKG-INFO": info}}, src=False)
    index.ok("init", "lib", "--origin", "pypi:lib==1.0")
    settings = json.loads((index.root / "third_party/lib/import.json").read_text())
    repository = "https://github.com/o/lib.git"
    assert settings["origins"] == {"sdist": {"project": "lib"}, "git": {"url": repository}}
    assert repository in (index.root / "third_party/lib/METADATA").read_text()


def test_the_first_readme_links_only_pages_that_the_workspace_has(index: _Index) -> None:
    index.publish("lib", {"1.0": {"lib/__init__.py": "x = 1\n"}}, src=False)
    (index.root / "patches").mkdir()
    (index.root / "patches/README.md").write_text("Ours\n")
    index.ok("init", "lib", "--origin", "pypi:lib==1.0")
    readme = (index.root / "third_party/lib/README.md").read_text()
    assert "with our [patches](../../patches/README.md)" in readme
    assert "see\nthe importer." in readme


def test_a_cherry_pick_without_a_repository_names_the_key(
    index: _Index, capsys: pytest.CaptureFixture[str]
) -> None:
    index.publish("absl-py", {"1.4.0": ABSL["1.4.0"]}, src=False)
    index.ok("init", "absl_py", "--origin", "pypi:absl-py==1.4.0")
    assert index.run("cherry-pick", "77", "--owner", "us") == 1
    message = capsys.readouterr().err
    assert "third_party/absl_py/import.json: key 'origins' has no 'git'" in message


def commit_config(repository: Path, key: str) -> None:
    git(repository, "config", key, "a@example.org")


def read_at(repository: Path, branch: str, path: str) -> str:
    return f"{git(repository, 'show', f'{branch}:{path}')}\n"


def test_sync_tells_what_is_new_in_every_project(
    index: _Index, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    index.publish("absl-py", ABSL, src=False)
    index.publish("fsspec", {"2025.3.0": {"fsspec/__init__.py": ""}}, src=False)
    index.ok("init", "absl_py", "--origin", "wheel:absl-py==1.4.0")
    index.patches("absl_py", ABSL_PATCHES[:1])
    index.ok("init", "fsspec", "--origin", "wheel:fsspec==2025.3.0")
    out = index.ok("sync")
    assert "absl_py: v1.4.0, 2 newer releases, newest v2.3.0\n" in out
    assert "v2.3.0: 1 landed" in out
    assert "fsspec: v2025.3.0, no newer releases\n" in out
    assert index.run("sync", "fsspec") == 4
    for file in (index.root.parent / "index").glob("absl*2.3.0*.whl"):
        file.write_bytes(b"damaged")  # listed, but it cannot be read
    monkeypatch.setenv("XDG_CACHE_HOME", str(index.root.parent / "another_cache"))
    assert index.run("sync", "absl_py") in (1, 3)
    out = capsys.readouterr().out
    assert "absl_py: v1.4.0, 2 newer releases, newest v2.3.0\n  no forecast: " in out
    (index.root / "third_party/fsspec/import.json").write_text("{}")
    capsys.readouterr()
    assert index.run("--json", "sync", "fsspec") == 1
    rows = json.loads(capsys.readouterr().out)["projects"]
    assert "key 'origins' is missing" in rows["fsspec"]["error"]
    assert index.run("sync", "fsspek") == 1


def test_daily_imports_of_a_branch_are_a_chain(
    index: _Index, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upstream = tmp_path / "upstream"
    lines = [f"line {number}\n" for number in range(20)]

    def commit(tag: str = "") -> str:
        files = {"lib/__init__.py": b"", "lib/a.py": "".join(lines).encode()}
        return commit_files(upstream, files, tag)

    commit("v1.0")
    index.ok("init", "lib", "--origin", str(upstream), "--tag", "v1.0", "--licence", "MIT")
    index.patch("lib", "Say ten", "lib/a.py", ("line 10\n", "line ten\n"))
    assert index.run("--ref", "main", "--since", "LAST") == 1
    assert "has no import from main" in capsys.readouterr().err
    lines[10] = "line X\n"
    first = commit()
    assert index.run("--ref", "main") == 2
    conflict = index.root / ".import/conflict/lib/a.py"
    conflict.write_text("".join(lines).replace("line X\n", "line X, ten\n"))
    index.ok("continue")
    for tag in ("v0.9", "v1.1"):
        git(upstream, "tag", tag)
    out = index.ok("sync")
    assert f"lib: {first[:12]}, 1 release since v1.0, newest v1.1\n" in out, out
    git(upstream, "tag", "--delete", "v1.1")
    # Reset the pin to the release, as if the builder did not support the branch.
    pin = index.root / "third_party/lib/pin.json"
    pin.write_text(json.dumps({**index.pin("lib"), "tag": "v1.0"}))
    lines[0] = "line 0, new\n"
    second = commit()
    assert f"main is at {second[:12]}" in index.ok("sync")
    out = index.ok("--ref", "main")
    assert f"since the last import from main, {first[:12]}" in out
    assert "1 of 1 patches" in out
    assert index.run("--ref", "main", "--since", "LAST") == 4
    branches = json.loads((index.root / "patches/lib/branches.json").read_text())
    assert branches == {"main": {"label": second[:12], "commit": second}}
