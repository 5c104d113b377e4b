# SPDX-License-Identifier: Apache-2.0
"""`prepare` checks the release, patches the tree, and copies the Python packages to `site`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from third_party.torch.source import prepare
from tools.importer import ApplyError

_VERSION = "1.2.3"
_SUBJECT = """Subject: Say another word
Owner: build
Reason: build
Upstream: None yet; remove when it says so
Extension-point-considered: None
Test: third_party/torch/source/prepare_test.py::test_the_tree_is_patched_and_apart

diff --git a/torch/word.py b/torch/word.py
--- a/torch/word.py
+++ b/torch/word.py
@@ -1 +1 @@
-WORD = "old"
+WORD = "new"
"""


@pytest.fixture
def inputs(tmp_path: Path) -> prepare.Inputs:
    """Return inputs for `prepare`, with the source tree of a tiny release."""
    tree = tmp_path / "tree"
    files = {
        "LICENSE": "",
        "NOTICE": "",
        "build_variables.bzl": "",
        "version.txt": _VERSION + "a0\n",
        "aten/src/ATen/A.cpp": "",
        "c10/BUILD.bazel": "",
        "c10/core/C.h": "",
        "caffe2/core/macros.h": "a placeholder",
        "functorch/__init__.py": "",
        "test/test_a.py": "",
        "third_party/miniz-3.0.2/miniz.c": "",
        "tools/BUILD": "",
        "torch/__init__.py": "",
        "torch/_utils_internal.py": "UPSTREAM = 1\n",
        "torch/_inductor/codegen/prefix.h": "",
        "torch/csrc/T.cpp": "",
        "torch/extension.h": "",
        "torch/lib/libshm/CMakeLists.txt": "",
        "torch/csrc/jit/serialization/mobile_bytecode_generated.h": "of another release",
        "torch/word.py": 'WORD = "old"\n',
        "torchgen/gen.py": "",
        "docs/index.rst": "",
    }
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    patches = tmp_path / "patches"
    patches.mkdir()
    (patches / "series").write_text("say-another-word.patch\n")
    (patches / "say-another-word.patch").write_text(_SUBJECT)
    seam = tmp_path / "seam"
    (seam / "_seam").mkdir(parents=True)
    (seam / "_utils_internal.py").write_text("OURS = 1\n")
    (seam / "_seam" / "__init__.py").write_text("")
    contents = tmp_path / "contents.json"
    contents.write_text(
        json.dumps({"roots": ["functorch", "torch", "torchgen"], "left_out": ["torch/csrc/*"]})
    )
    pin = tmp_path / "pin.json"
    pin.write_text(json.dumps({"tag": "v1.2.3", "commit": "c" * 40, "version": _VERSION}))
    return prepare.Inputs(tree, pin, patches, seam, contents)


def test_the_tree_is_patched_and_apart(inputs: prepare.Inputs, tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepare.prepare(inputs, out)
    assert (out / "torch/word.py").read_text() == 'WORD = "new"\n'
    assert (out / "site/torch/word.py").read_text() == 'WORD = "new"\n'
    assert (out / "torch/csrc/T.cpp").exists()
    assert not (out / "site/torch/csrc").exists()
    assert not (out / "site/torch/extension.h").exists()
    # torch in a static program relies on the absence of this folder.
    assert not (out / "site/torch/lib").exists()
    assert (out / "site/torch/_inductor/codegen/prefix.h").exists()
    assert (out / "site/torch/_utils_internal.py").read_text() == "OURS = 1\n"
    assert (out / "site/torch/_utils_internal_upstream.py").read_text() == "UPSTREAM = 1\n"
    assert "__version__ = '1.2.3'" in (out / "site/torch/version.py").read_text()
    assert json.loads((out / "SOURCE_INFO.json").read_text())["commit"] == "c" * 40
    assert not inputs.tree.exists()


def test_no_package_of_upstreams_own_workspace_is_left(
    inputs: prepare.Inputs, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    prepare.prepare(inputs, out)
    names = {path.name for path in out.rglob("*")}
    assert names.isdisjoint(
        {"BUILD", "BUILD.bazel", "WORKSPACE", "macros.h", "docs", "mobile_bytecode_generated.h"}
    )


def test_the_tree_of_another_release_is_refused(inputs: prepare.Inputs, tmp_path: Path) -> None:
    (inputs.tree / "version.txt").write_text("9.9.9a0\n")
    with pytest.raises(prepare.SourceError, match=r"says 9\.9\.9a0, .* wants 1\.2\.3"):
        prepare.prepare(inputs, tmp_path / "out")


def test_a_patch_that_does_not_fit_stops_it(inputs: prepare.Inputs, tmp_path: Path) -> None:
    (inputs.tree / "torch/word.py").write_text('WORD = "other"\n')
    with pytest.raises(ApplyError, match="say-another-word"):
        prepare.prepare(inputs, tmp_path / "out")
    assert not (tmp_path / "out").exists()
