# SPDX-License-Identifier: Apache-2.0
"""agreement.py reports real differences between object files and ignores all others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from third_party.torch.source.agreement import Functions, differences, functions_of, relocations


def _functions(**calls: str) -> Functions:
    def lines() -> Iterator[str]:
        for function, callees in calls.items():
            yield f"RELOCATION RECORDS FOR [.text.{function}]:"
            yield "OFFSET           TYPE                     VALUE"
            for callee in callees.split():
                yield f"0000000000000012 R_X86_64_PLT32           {callee}-0x4"

    return functions_of(lines())


@pytest.mark.parametrize(
    ("says", "status"), [("", 0), ("x.o:\tfile format elf64-x86-64", 1), ("no member", 0)]
)
def test_who_says_nothing_of_an_archive_has_not_read_it(
    says: str, status: int, tmp_path: Path
) -> None:
    objdump = tmp_path / "objdump"
    objdump.write_text(f"#!/bin/sh\necho '{says}'\nexit {status}\n")
    objdump.chmod(0o755)
    with pytest.raises(SystemExit, match=r"could not read|found no object"):
        list(relocations(objdump, tmp_path / "x.a"))


def test_what_is_said_of_an_object_is_taken_as_it_is(tmp_path: Path) -> None:
    objdump = tmp_path / "objdump"
    objdump.write_text("#!/bin/sh\necho 'x.o:\tfile format elf64-x86-64'\necho more\n")
    objdump.chmod(0o755)
    assert [*relocations(objdump, tmp_path / "x.a")][-1] == "more\n"


@pytest.mark.parametrize(
    ("together", "apart"),
    [
        ("_ZZ1fvE17torch_warn_once_4", "_ZZ1fvE17torch_warn_once_12"),
        ("_ZL30TORCH_LIBRARY_IMPL_init_aten_1RN1cE", "_ZL31TORCH_LIBRARY_IMPL_init_aten_18RN1cE"),
        (
            "_ZZN2atL28TORCH_LIBRARY_IMPL_init_Q_15ERNS_7LibraryEENK3$_1clEv",
            "_ZZN2atL27TORCH_LIBRARY_IMPL_init_Q_2ERNS_7LibraryEENK3$_0clEv",
        ),
        ("_ZN4c10dL21g_GlooDeviceRegistry7B5cxx11E", "_ZN4c10dL22g_GlooDeviceRegistry10B5cxx11E"),
        (
            "_ZL40TORCH_LIBRARY_IMPL_static_init___Named_1",
            "_ZL41TORCH_LIBRARY_IMPL_static_init___Named_22",
        ),
        ("_ZN10THPPointerI7_objectEC1EPS0_", "_ZN10THPPointerI7_objectEC2EPS0_"),
        ("_ZN2at6detailL13g_DeviceType0E", "_ZN2at6detailL14g_DeviceType11E"),
        ("_ZZ1fvE8logFlag6", "_ZZ1fvE9logFlag66"),
        ("_ZNK3$_9clEv", "_ZNK4$_12clEv"),
        ("_Z1gv __clang_call_terminate", "_Z1gv"),
        ("_Z1gv", "_Z1gv _ZSt8_DestroyIPN5torch9BufHandleEEvT_S4_"),
        ("_Z1gv _Unwind_Resume _ZN3c106IValue7PayloadD2Ev", "_Z1gv"),
    ],
)
def test_what_a_compiler_counts_or_knows_of_exceptions_is_no_difference(
    together: str, apart: str
) -> None:
    assert list(differences(_functions(f=together), _functions(f=apart))) == []


def test_another_function_is_one() -> None:
    lines = list(differences(_functions(f="_Z1gi _Z1hv"), _functions(f="_Z1gl _Z1hv")))
    assert lines == ["f: refers to _Z1gi, but the file compiled alone refers to _Z1gl"]


def test_a_function_of_the_unit_alone_is_one() -> None:
    assert list(differences(_functions(f="_Z1gv", k="_Z1gv"), _functions(f="_Z1gv"))) == [
        "k: no separately compiled file has this function"
    ]


def test_a_unit_is_as_empty_as_its_files() -> None:
    assert list(differences({}, {})) == []
    assert list(differences({}, _functions(f="_Z1gv"))) == [
        "the unit is empty, but its files are not"
    ]
