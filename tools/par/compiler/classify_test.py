# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tools.par.compiler.classify import Kind, classify, extension_name, module_name

_ELF = b"\x7fELF\x02\x01\x01"


@pytest.mark.parametrize(
    ("path", "head", "kind"),
    [
        ("torch/nn/modules.py", b"import x", Kind.MODULE),
        ("_sysconfigdata__linux_x86_64-linux-gnu.py", b"", Kind.MODULE),
        ("pkg/a.b.py", b"", Kind.DATA),
        ("pkg/__pycache__/a.cpython-311.pyc", b"", Kind.DROP),
        ("pkg/_x.cpython-310-x86_64-linux-gnu.so", _ELF, Kind.DROP),
        ("pkg/_x.cpython-311-x86_64-linux-gnu.so", _ELF, Kind.NATIVE),
        ("pkg/_x.abi3.so", _ELF, Kind.NATIVE),
        ("torch/bin/torch_shm_manager", _ELF, Kind.NATIVE),
        ("torch/lib/libnot_elf.so", b"INPUT ( x )", Kind.DATA),
        ("torch/include/ATen/ATen", b"", Kind.DEVELOPER),
        ("torch/_inductor/script.ld", b"", Kind.DEVELOPER),
        ("pkg/data.json", b"{}", Kind.DATA),
    ],
)
def test_kind(path: str, head: bytes, kind: Kind) -> None:
    assert classify(path, head) is kind


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/b.py", "a.b"),
        ("a/__init__.py", "a"),
        ("__init__.py", None),
        ("a-1.0.dist-info/x.py", None),
    ],
)
def test_module_name(path: str, name: str | None) -> None:
    assert module_name(path) == name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("torch/_C.cpython-311-x86_64-linux-gnu.so", "torch._C"),
        ("pkg/_x.abi3.so", "pkg._x"),
        ("pkg/_x.so", "pkg._x"),
        ("torch/lib/libc10.so.1", None),
    ],
)
def test_extension_name(path: str, name: str | None) -> None:
    assert extension_name(path) == name
