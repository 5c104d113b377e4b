# SPDX-License-Identifier: Apache-2.0
"""Check that files refer to the same names when compiled as one unit and when compiled separately.

A unit is a source file that includes several others, so that one run of the compiler compiles them
all. In a unit, a file sees the declarations in the files before it. One of those overloads may
match a call better than the intended function, so that the code compiles and links but calls the
wrong function. In v2.6.0, torch/csrc/jit/passes/fixup_trace_scope_blocks.cpp does so if a file in
its unit includes torch/csrc/jit/frontend/ir_emitter.h.

Without optimization, the compiler emits a relocation for every call. The script compares the
relocations that `objdump -r` prints: each function in the unit must refer to the same names as in
one of the separately compiled files.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

_SECTION = re.compile(r"RELOCATION RECORDS FOR \[(.*)\]:")
_RECORD = re.compile(r"[0-9a-f]{8,} +R_\S+ +(\S+?)(?:[+-]0x[0-9a-f]+)?$")
_SECTIONS_OF_NAMES = re.compile(
    r"^\.(?:text|bss|tbss|tdata|data(?:\.rel(?:\.ro)?(?:\.local)?)?)\.(?=.)"
)
# The numbers in generated names. Compilers number lambdas, unnamed guards and constants within a
# file, and torch's macros use __COUNTER__. The digits before a mangled name are its length, which
# may change with the number.
_COUNTED = re.compile(
    r"\d+(?P<name>\$_|TORCH_LIBRARY\w*?_(?=\d+(?:[ER]|$))|torch_warn_once_|logFlag"
    r"|g_(?:\w+Registry|DeviceType))\d+|\.\d+$"
)
# Functions that clean up when a call throws. The compiler omits calls to them if it knows that the
# call cannot throw.
_UNWINDING = re.compile(
    r"__clang_call_terminate|_Unwind_Resume|__cxa_|__gxx_personality|_Z\w+D[012]Ev$"
    r"|_ZSt8_Destroy|_Zd[la]Pv"
)

_STARTUP = ".text.startup"
# Names of GCC's startup functions. They are not compared, because they contain the name of the
# file's first function.
_STARTUP_OF_GCC = re.compile("__static_initialization_and_destruction_0|_GLOBAL__sub_I_")

Functions = dict[str, set[frozenset[str]]]


def functions_of(lines: Iterable[str]) -> Functions:
    """Map each function name to the set of names that the function refers to.

    Several functions may share a name, such as the empty name. Therefore, each value is a set that
    contains one set of names for each of these functions.
    """
    functions: Functions = defaultdict(set)
    for section, records in _sections(lines):
        functions[section].add(frozenset(records))
    return functions


def differences(together: Functions, apart: Functions) -> Iterator[str]:
    """Yield a line for each function whose references change if it is compiled in the unit."""
    if apart and not together:
        yield "the unit is empty, but its files are not"
    for name in sorted(together):
        if name == _STARTUP:
            # The constructors in a file share one section, so compare the union of the names that
            # they refer to.
            odd = _union(together[name]) ^ _union(apart.get(name, set()))
            if odd:
                yield f"the constructors of globals: {_listed(odd)} only in one of the two"
        elif name not in apart and _UNWINDING.match(name):
            continue  # The unit has this function only for cleanup.
        elif name not in apart:
            yield f"{name}: no separately compiled file has this function"
        else:
            for names in together[name] - apart[name]:
                nearest = min(apart[name], key=lambda other: len(other ^ names))
                yield (
                    f"{name}: refers to {_listed(names - nearest)}, but the file compiled alone "
                    f"refers to {_listed(nearest - names)}"
                )


def _sections(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    name, records = "", list[str]()
    for line in lines:
        if header := _SECTION.match(line):
            if name:
                yield name, records
            name, records = _function(header[1]), []
        elif name and (record := _RECORD.match(line.rstrip())) and (symbol := _symbol(record[1])):
            records.append(symbol)
    if name:
        yield name, records


def _function(section: str) -> str:
    """Return the name of the function or table in a section, or "" if it has none."""
    if section.startswith(_STARTUP) or _STARTUP_OF_GCC.search(section):
        return _STARTUP
    name = _SECTIONS_OF_NAMES.sub("", section)
    return "" if name == section else _uncounted(name)


def _symbol(name: str) -> str:
    """Return the name that a relocation refers to, or "" for an unnamed constant."""
    name = _SECTIONS_OF_NAMES.sub("", name)
    if _STARTUP_OF_GCC.search(name) or name.startswith(
        (".L", ".rodata", ".gcc_except_table", "__cxx_global_", "DW.ref.")
    ):
        return ""
    return "" if _UNWINDING.match(name) else _uncounted(name)


def _uncounted(name: str) -> str:
    plain = _COUNTED.sub(lambda counted: counted["name"] or "", name)
    # The two symbols of a constructor, C1 and C2, are equivalent if the class has no virtual bases.
    return plain.replace("C1E", "C2E")


def _union(sets: Iterable[frozenset[str]]) -> set[str]:
    return set().union(*sets)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing else"


def relocations(objdump: Path, archive: Path) -> Iterator[str]:
    """Yield the lines that objdump prints for an archive. Exit if the archive has no objects."""
    objects = 0
    with subprocess.Popen(
        [objdump, "-r", archive], stdout=subprocess.PIPE, text=True, env={"LC_ALL": "C"}
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            objects += "file format" in line
            yield line
    if process.returncode:
        sys.exit(
            f"agreement: {objdump} could not read {archive} (exit status {process.returncode})"
        )
    if not objects:
        sys.exit(f"agreement: {objdump} found no object in {archive}")


def main() -> None:
    """Write a report whose first line begins with `agree` or `differ`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objdump", type=Path, required=True)
    parser.add_argument("--together", type=Path, required=True, help="archive of the unit")
    parser.add_argument("--apart", type=Path, required=True, help="archive of its files")
    parser.add_argument("--report", type=Path, required=True)
    options = parser.parse_args()
    together = functions_of(relocations(options.objdump, options.together))
    apart = functions_of(relocations(options.objdump, options.apart))
    odd = list(differences(together, apart))
    head = f"{'differ' if odd else 'agree'}: {len(together)} functions"
    options.report.write_text("\n".join([head, *odd]) + "\n")


if __name__ == "__main__":
    main()
