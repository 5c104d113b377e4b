# SPDX-License-Identifier: Apache-2.0
"""unpack.py builds the tree from a small wheel, and rejects inputs that do not match the pin."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import zipfile
from pathlib import Path

import pytest

from third_party.torch import unpack
from tools.importer import ApplyError, tree_hash

_COMMIT = "c" * 40
_FILES = {
    "torch/__init__.py": "word = 'old'\n",
    "torch/version.py": f"__version__ = '1.0+cpu'\ngit_version = '{_COMMIT}'\n",
    "torch/_utils_internal.py": "USE_GLOBAL_DEPS = True\n",
    "torch/lib/libtorch_cpu.so": "native",
    "torch/bin/protoc": "native",
    "torch/bin/torch_shm_manager": "native",
    "torch/test/some_test": "native",
    "torch/testing/__init__.py": "",
    "torch-1.0+cpu.dist-info/METADATA": "Name: torch\n",
    "torch-1.0+cpu.dist-info/RECORD": "torch/test/some_test,sha256=x,1\n",
}
_PATCH = """\
Subject: Say new
Owner: packaging
Reason: build
Upstream: remove when the test passes without it
Extension-point-considered: none
Test: x_test.py::test_x

--- a/torch/__init__.py
+++ b/torch/__init__.py
@@ -1 +1 @@
-word = 'old'
+word = 'new'
"""
_ADD_RUN = """\
diff --git a/torch/run b/torch/run
new file mode 100755
--- /dev/null
+++ b/torch/run
@@ -0,0 +1 @@
+x
"""
_FIX_TEST = """\
diff --git a/test/test_x.py b/test/test_x.py
--- a/test/test_x.py
+++ b/test/test_x.py
@@ -1 +1 @@
-old
+new
"""
_DROP_VERSION = """\
diff --git a/torch/version.py b/torch/version.py
deleted file mode 100644
--- a/torch/version.py
+++ /dev/null
@@ -1,2 +0,0 @@
-__version__ = '1.0+cpu'
-git_version = 'COMMIT'
""".replace("COMMIT", _COMMIT)


@dataclasses.dataclass
class _Inputs:
    """A small wheel and the other inputs to unpack.py. `make` runs unpack.py on them."""

    root: Path

    def __post_init__(self) -> None:
        self.wheel = self.root / "torch-1.0+cpu-cp311-cp311-linux_x86_64.whl"
        self.pin_file = self.root / "pin.json"
        self.patches = self.root / "patches"
        self.seam = self.root / "seam"
        self.out = self.root / "out"
        self.seam.mkdir()
        (self.seam / "_utils_internal.py").write_text("USE_GLOBAL_DEPS = False\n")
        self.patches.mkdir()
        (self.patches / "series").write_text("say-new.patch\n")
        (self.patches / "say-new.patch").write_text(_PATCH)
        self.pin = {"tag": "v1.0", "commit": _COMMIT, "version": "1.0+cpu", "tree_hash": "unknown"}
        self.pack(_FILES)

    def pack(self, files: dict[str, str]) -> None:
        with zipfile.ZipFile(self.wheel, "w") as archive:
            for name, text in files.items():
                item = zipfile.ZipInfo(name)
                item.external_attr = (0o755 if "/bin/" in name else 0o644) << 16
                archive.writestr(item, text)

    def make(self) -> None:
        sha256 = hashlib.sha256(self.wheel.read_bytes()).hexdigest()
        pin = {"wheel": {"sha256": sha256}, **self.pin}
        self.pin_file.write_text(json.dumps(pin))
        self.out.mkdir(exist_ok=True)
        unpack.unpack(self.wheel, self.pin_file, self.patches, self.seam, self.out)

    def patch(self, name: str, diff: str) -> None:
        """Append a patch to the series."""
        (self.patches / name).write_text(_PATCH.split("---", 1)[0] + diff)
        with (self.patches / "series").open("a") as series:
            series.write(name + "\n")

    def build(self) -> unpack.TreeBuild:
        """Build the tree without comparing its hash with the pin."""
        sha256 = hashlib.sha256(self.wheel.read_bytes()).hexdigest()
        pin = unpack.Pin("v1.0", _COMMIT, "1.0+cpu", sha256, "not looked at")
        return unpack.build_tree(self.wheel, pin, self.patches, self.seam, self.out)

    def make_pinned(self) -> Path:
        """Pin the hash that the error message contains, as a user would, and build the tree."""
        with pytest.raises(unpack.UnpackError, match="hashes to") as raised:
            self.make()
        self.pin["tree_hash"] = str(raised.value).split("hashes to ")[1].split(".")[0]
        self.make()
        return self.out / "site"


@pytest.fixture(name="inputs")
def _inputs(tmp_path: Path) -> _Inputs:
    return _Inputs(tmp_path)


def test_modules_of_the_seam_become_part_of_torch(inputs: _Inputs) -> None:
    (inputs.seam / "_seam").mkdir()
    (inputs.seam / "_seam" / "logs.py").write_text("here = True\n")
    site = inputs.make_pinned()
    assert (site / "torch" / "_seam" / "logs.py").read_text() == "here = True\n"


def test_a_module_of_the_seam_that_upstream_has_too(inputs: _Inputs) -> None:
    (inputs.seam / "version.py").write_text("")
    with pytest.raises(unpack.UnpackError, match=r"upstream has a file torch/version\.py as well"):
        inputs.build()


def test_the_tree(inputs: _Inputs) -> None:
    site = inputs.make_pinned()
    assert (site / "torch" / "__init__.py").read_text() == "word = 'new'\n"
    assert (site / unpack.SEAM).read_text() == "USE_GLOBAL_DEPS = False\n"
    assert (site / unpack.SEAM_UPSTREAM).read_text() == "USE_GLOBAL_DEPS = True\n"
    assert os.access(site / "torch" / "bin" / "torch_shm_manager", os.X_OK)
    assert not os.access(site / "torch" / "__init__.py", os.X_OK)
    assert not (site / "torch" / "test").exists()
    assert not (site / "torch" / "bin" / "protoc").exists()
    assert (site / "torch" / "testing" / "__init__.py").is_file()
    assert tree_hash(site) == inputs.pin["tree_hash"]


def test_the_record_names_what_is_there(inputs: _Inputs) -> None:
    site = inputs.make_pinned()
    rows = (site / "torch-1.0+cpu.dist-info" / "RECORD").read_text().splitlines()
    named = {row.split(",", 1)[0] for row in rows}
    assert named == {
        path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()
    }
    assert "torch/bin/torch_shm_manager,sha256=" in "".join(rows)
    assert "torch-1.0+cpu.dist-info/RECORD,," in rows


@pytest.mark.parametrize(
    ("changed", "differs"),
    [
        ("torch/testing/__init__.py", True),
        ("torch/lib/libtorch_cpu.so", True),
        ("torch-1.0+cpu.dist-info/METADATA", False),
        ("torch/test/some_test", False),
    ],
)
def test_the_stamp_follows_what_is_compiled_against(
    inputs: _Inputs, changed: str, differs: bool
) -> None:
    before = (inputs.make_pinned() / unpack.SOURCE_HASH).read_text()
    inputs.pack({**_FILES, changed: "changed\n"})
    inputs.pin["tree_hash"] = "unknown"
    after = (inputs.make_pinned() / unpack.SOURCE_HASH).read_text()
    assert (before != after) is differs


def test_the_stamp_follows_the_patches(inputs: _Inputs) -> None:
    before = (inputs.make_pinned() / unpack.SOURCE_HASH).read_text()
    (inputs.patches / "say-new.patch").write_text(_PATCH.replace("'new'", "'newer'"))
    inputs.pin["tree_hash"] = "unknown"
    assert (inputs.make_pinned() / unpack.SOURCE_HASH).read_text() != before


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "version",
            "2.0+cpu",
            "torch/version.py: __version__ is 1.0.cpu, .*pin.json wants 2.0.cpu",
        ),
        ("commit", "d" * 40, f"torch/version.py: git_version is {_COMMIT}, .*pin.json wants ddd"),
        ("wheel", {"sha256": "0" * 64}, "linux_x86_64.whl: sha256 is .*pin.json wants 000"),
        ("wheel", {}, "pin.json: key 'sha256' is missing"),
    ],
)
def test_an_input_that_is_not_the_pinned_one(
    inputs: _Inputs, key: str, value: object, message: str
) -> None:
    inputs.pin = {**inputs.pin, key: value}  # type: ignore[dict-item]
    with pytest.raises(unpack.UnpackError, match=message) as raised:
        inputs.make()
    assert "\n" not in str(raised.value)


def test_the_command_prints_one_line(inputs: _Inputs, capsys: pytest.CaptureFixture[str]) -> None:
    site = inputs.make_pinned()
    arguments = [f"--wheel={inputs.wheel}", f"--pin={inputs.pin_file}"]
    arguments += [f"--patches={inputs.patches}", f"--seam={inputs.seam}", f"--out={inputs.out}"]
    assert unpack.main(arguments) == 0
    assert (site / "torch").is_dir()
    fuzzy = _PATCH.replace("@@ -1 +1 @@\n-word", "@@ -1,2 +1,2 @@\n # gone upstream\n-word")
    (inputs.patches / "say-new.patch").write_text(fuzzy)
    assert unpack.main(arguments) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("say-new.patch: torch/__init__.py: hunk 1: line 1 should be '# gone")


def test_made_twice_it_is_the_same(inputs: _Inputs) -> None:
    first = tree_hash(inputs.make_pinned())
    (inputs.out / "site" / "left over").touch()
    inputs.make()
    assert tree_hash(inputs.out / "site") == first


def test_a_build_judges_no_hash(inputs: _Inputs) -> None:
    build = inputs.build()
    site = inputs.out / "site"
    assert build.tree_hash == tree_hash(site)
    assert (build.version, build.commit) == ("1.0+cpu", _COMMIT)
    assert {path: member.size for path, member in build.members.items()} == {
        path.relative_to(site).as_posix(): path.stat().st_size
        for path in site.rglob("*")
        if path.is_file()
    }
    assert not (inputs.out / "SOURCE_INFO.json").exists()


def test_a_tree_is_known_without_writing_it(inputs: _Inputs) -> None:
    inputs.patch("add-run.patch", _ADD_RUN)
    inputs.patch("drop-version.patch", _DROP_VERSION)
    build = inputs.build()
    inputs.out.rename(inputs.root / "moved")
    assert unpack.patched_tree(inputs.wheel, inputs.patches, inputs.seam) == build
    assert unpack.tree_hash_of(inputs.wheel, inputs.patches, inputs.seam) == build.tree_hash
    assert not inputs.out.exists()


def test_a_reader_of_the_wheel_need_not_read_it_twice(inputs: _Inputs) -> None:
    with zipfile.ZipFile(inputs.wheel) as archive:
        members = {item.filename: unpack.read_member(archive, item) for item in archive.infolist()}
    tree = unpack.patched_tree(inputs.wheel, inputs.patches, inputs.seam)
    assert unpack.patched_tree(inputs.wheel, inputs.patches, inputs.seam, members=members) == tree
    other = unpack.Member(members["torch/lib/libtorch_cpu.so"].entry, 1)
    members["torch/testing/__init__.py"] = other
    changed = unpack.patched_tree(inputs.wheel, inputs.patches, inputs.seam, members=members)
    assert changed.members["torch/testing/__init__.py"] == other


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("torch/lib", "lib"),  # The path is a directory in the wheel.
        ("torch/version.py/x", "version.py"),  # The path is under a file in the wheel.
        ("torch/bin/torch_shm_manager/x/y", "torch_shm_manager"),
    ],
)
def test_without_writing_the_same_patches_are_refused(
    inputs: _Inputs, path: str, message: str
) -> None:
    inputs.patch("add-run.patch", _ADD_RUN.replace("torch/run", path))
    with pytest.raises((ApplyError, OSError), match=message) as written:
        inputs.build()
    with pytest.raises(type(written.value), match=message):
        unpack.tree_hash_of(inputs.wheel, inputs.patches, inputs.seam)


def test_what_no_wheel_holds_is_passed_over_where_that_was_recorded(inputs: _Inputs) -> None:
    inputs.patch("fix-test.patch", _FIX_TEST)
    with pytest.raises(ApplyError, match="no such file 'test/test_x.py' in the tree"):
        inputs.build()
    (inputs.patches / "base.json").write_text(json.dumps({"absent": ["test/test_x.py"]}))
    build = inputs.build()
    assert "test/test_x.py" not in build.members
    assert unpack.patched_tree(inputs.wheel, inputs.patches, inputs.seam) == build
    (inputs.patches / "base.json").write_text(json.dumps({"absent": ["torch/__init__.py"]}))
    with pytest.raises(unpack.UnpackError, match="says that 'torch/__init__.py' is absent"):
        inputs.build()
    (inputs.patches / "base.json").write_text("{}")
    with pytest.raises(unpack.UnpackError, match="base.json: KeyError.'absent'"):
        inputs.build()


def test_a_damaged_member_is_named(inputs: _Inputs) -> None:
    data = inputs.wheel.read_bytes()
    offset = data.index(b"native")
    inputs.wheel.write_bytes(data[:offset] + b"NATIVE" + data[offset + 6 :])
    with pytest.raises(unpack.UnpackError, match="'torch/lib/libtorch_cpu.so' is damaged: Bad CRC"):
        unpack.tree_hash_of(inputs.wheel, inputs.patches, inputs.seam)


@pytest.mark.parametrize("name", ["/etc/x", "torch/../../x", "torch//x"])
def test_a_member_that_leaves_the_tree(inputs: _Inputs, name: str) -> None:
    inputs.pack({**_FILES, name: "x"})
    with pytest.raises(unpack.UnpackError, match=f"holds '{name}', which is not a plain path"):
        inputs.build()
