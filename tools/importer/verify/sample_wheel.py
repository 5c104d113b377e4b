# SPDX-License-Identifier: Apache-2.0
"""Test support: a verifiable workspace with a small wheel, its pin, patches, and seam/ (hooks)."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from third_party.torch.unpack import Pin, build_tree, read_pin
from tools.importer.engine import base_files, record_base
from tools.importer.origins import open_pin
from tools.importer.origins.cache import user_cache
from tools.importer.project import load_project
from tools.importer.report import JsonReport
from tools.importer.series import load_series

COMMIT = "c" * 40
RECORD = "torch-1.0+cpu.dist-info/RECORD"
FILES: Mapping[str, bytes] = {
    "torch/__init__.py": b"word = 'old'\n",
    "torch/version.py": f"__version__ = '1.0+cpu'\ngit_version = '{COMMIT}'\n".encode(),
    "torch/_utils_internal.py": b"USE_GLOBAL_DEPS = True\n",
    "torch/lib/libtorch_cpu.so": b"native code " * 1000,
    "torch/bin/torch_shm_manager": b"a program",
    "torch/test/some_test": b"left out",
    "torch-1.0+cpu.dist-info/METADATA": b"Name: torch\n",
}
PATCH = """\
Subject: Say new
Owner: packaging
Reason: build
Upstream: remove when the test passes without it
Extension-point-considered: none
Test: x_test.py::test_x

diff --git a/torch/__init__.py b/torch/__init__.py
--- a/torch/__init__.py
+++ b/torch/__init__.py
@@ -1 +1 @@
-word = 'old'
+word = 'new'
"""


@dataclass(frozen=True)
class SampleWheel:
    """The paths of a sample workspace at `root`, and methods that write its files."""

    root: Path

    @property
    def wheel(self) -> Path:
        return self.root / "torch-1.0+cpu-cp311-cp311-linux_x86_64.whl"

    @property
    def pin_file(self) -> Path:
        return self.root / "third_party" / "torch" / "pin.json"

    @property
    def patches(self) -> Path:
        return self.root / "patches" / "torch" / "v1.0"

    @property
    def seam(self) -> Path:
        return self.root / "third_party" / "torch" / "seam"

    @property
    def pin(self) -> Pin:
        return read_pin(self.pin_file)

    def pack(self, files: Mapping[str, bytes], *, record: str | None = None) -> None:
        """Write a wheel with `files`. To test a wrong RECORD, pass it as `record`."""
        with zipfile.ZipFile(self.wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in {**files, RECORD: (record or record_of(files)).encode()}.items():
                item = zipfile.ZipInfo(name)
                item.external_attr = (0o755 if "/bin/" in name else 0o644) << 16
                archive.writestr(item, data, zipfile.ZIP_DEFLATED)

    def write_pin(self, **changes: str) -> None:
        """Write pin.json for the current wheel, with the keys in `changes` replaced."""
        pin = {"tag": "v1.0", "commit": COMMIT, "version": "1.0+cpu", "tree_hash": "", **changes}
        sha256 = hashlib.sha256(self.wheel.read_bytes()).hexdigest()
        pinned = {**pin, "wheel": {"filename": self.wheel.name, "sha256": sha256}}
        self.pin_file.write_text(json.dumps(pinned))

    def build(self, out: Path) -> Path:
        """Build the tree in `out`, pin its hash, and return its directory."""
        build = build_tree(self.wheel, self.pin, self.patches, self.seam, out)
        self.write_pin(tree_hash=build.tree_hash)
        return out / "site"

    def record_base(self) -> None:
        """Put the wheel into the cache, and record it as the base of the patch series."""
        with user_cache().scratch() as directory:
            user_cache().keep(Path(shutil.copy(self.wheel, directory)))
        pin = {
            "kind": "wheel",
            "tag": "v1.0",
            "project": "torch",
            "version": "1.0+cpu",
            "filename": self.wheel.name,
            "sha256": self.pin.wheel_sha256,
            "commit": COMMIT,
            "natives": True,
        }
        snapshot = open_pin(load_project(self.root), JsonReport(io.StringIO()), pin)
        base = record_base(load_series(self.patches), snapshot)
        for name, data in base_files(base).items():
            (self.patches / name).write_bytes(data)


def make_sample(root: Path) -> SampleWheel:
    """Write a sample workspace. Its pin has no tree_hash until `build` is called."""
    sample = SampleWheel(root)
    sample.seam.mkdir(parents=True)
    (sample.seam / "_utils_internal.py").write_text("USE_GLOBAL_DEPS = False\n")
    sample.patches.mkdir(parents=True)
    (sample.patches / "series").write_text("say-new.patch\n")
    (sample.patches / "say-new.patch").write_text(PATCH)
    contents = "third_party/torch/wheel_contents.json"
    (root / contents).write_text(json.dumps({"roots": ["torch"], "built": [], "left_out": []}))
    settings = {
        "name": "torch",
        "builder": "torch_wheel",
        "pin": "third_party/torch/pin.json",
        "series": "patches/torch",
        "metadata": "third_party/torch/METADATA",
        "origins": {"wheel": {"project": "torch", "local_version": "cpu", "contents": contents}},
    }
    (root / "third_party/torch/import.json").write_text(json.dumps(settings))
    sample.pack(FILES)
    sample.write_pin()
    return sample


def record_of(files: Mapping[str, bytes]) -> str:
    """Return the RECORD of a wheel with these files."""
    rows = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join(rows) + f"{RECORD},,\n"
