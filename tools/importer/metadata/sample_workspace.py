# SPDX-License-Identifier: Apache-2.0
"""Test support: a small workspace with one pin of each kind."""

from __future__ import annotations

import json
from pathlib import Path

from tools.importer.metadata.workspace import write_all

PIN = {
    "tag": "v1.0",
    "commit": "c" * 40,
    "version": "1.0+cpu",
    "wheel": {
        "filename": "torch-1.0+cpu-py3-none-any.whl",
        "sha256": "a" * 64,
        "extra_index": "https://wheels.example.com/cpu",
    },
    "tree_hash": "b" * 64,
}

TORCH_CUDA_PIN = {
    "tag": "v1.1",
    "commit": "d" * 40,
    "version": "1.1+cu1",
    "wheel": {
        "version": "1.1",
        "filename": "torch-1.1-py3-none-any.whl",
        "sha256": "3" * 64,
    },
    "requires": ["A.b[c]==2"],
}

CUDA_PIN = {
    "version": "12.9",
    "wheels": {
        name: {
            "distribution": f"nvidia-cuda-{name}-cu12",
            "version": "12.9.1",
            "filename": f"nvidia_cuda_{name}_cu12-12.9.1-py3-none-any.whl",
            "sha256": digit * 64,
        }
        for name, digit in {"nvcc": "7", "runtime": "8"}.items()
    },
}

_SOURCES = """\
load("//third_party/fetch:source_archive.bzl", "source_archive")

_SOURCES = {
    "zlib": dict(
        debian_file = "zlib_1.2.13.orig.tar.gz",
        debian_sha256 = "%s",
        urls = ["https://example.com/zlib-1.2.13.tar.gz"],
        sha256 = "%s",
        strip_prefix = "zlib-1.2.13",
    ),
}
""" % ("d" * 64, "e" * 64)  # noqa: UP031 (the text itself contains braces)

_PACKAGES = """\
_PROGRAMS = {"pool/main/l/llvm/clang-19_19.1.7-3~deb12u1_amd64.deb": "%s"}
_LIBRARIES = {}
_SYSROOT = {"pool/main/g/gcc-12/libstdc++6_12.2.0-14_amd64.deb": "%s"}
""" % ("1" * 64, "2" * 64)  # noqa: UP031 (the text itself contains braces)

_MODULE = """\
module(name = "ws", version = "0.1")

bazel_dep(name = "rules", version = "2")
"""

_BEGUN = """\
name: "{name}"
description: "What {name} is for."
third_party {{
  url {{ type: HOMEPAGE value: "https://{name}.example.com" }}
  license_type: NOTICE
  license_note: "MIT"
}}
"""


def make(root: Path) -> Path:
    """Create the workspace at `root`, with up-to-date metadata, and return `root`."""
    for path, text in _texts().items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    write_all(root)
    return root


def _texts() -> dict[str, str]:
    row = {"filename": "a_b-2-py3-none-any.whl", "sha256": "f" * 64, "version": "2"}
    lock = {
        "inputs": "",
        "packages": {"a_b": {"distribution": "A.b", "requires": [], **row}},
        "torch_requires": ["a_b"],
    }
    imported = {
        "name": "torch",
        "builder": "torch_wheel",
        "pin": "third_party/torch/pin.json",
        "series": "patches/torch",
        "metadata": "third_party/torch/METADATA",
        "origins": {"git": {"url": "https://github.com/Upstream/torch.git"}},
    }
    return {
        "MODULE.bazel": _MODULE,
        "third_party/sources.bzl": _SOURCES,
        "third_party/clang/packages.bzl": _PACKAGES,
        "third_party/licences.json": json.dumps({"bazel": {}, "pypi": {"a_b": "MIT"}}),
        "third_party/pypi/lock.json": json.dumps(lock),
        "third_party/pypi/requirements.in": "# why\nA-B>=1  # why\n",
        "third_party/buildifier/pin.json": json.dumps({"version": "8.0", "sha256": "9" * 64}),
        "third_party/cuda/pin.json": json.dumps(CUDA_PIN),
        "third_party/torch/import.json": json.dumps(imported),
        "third_party/torch/pin.json": json.dumps(PIN),
        **{
            f"third_party/{name}/METADATA": _BEGUN.format(name=name)
            for name in ("buildifier", "clang", "cuda", "torch", "zlib")
        },
    }
