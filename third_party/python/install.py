# SPDX-License-Identifier: Apache-2.0
"""Lays out what the build made: the standard library, the headers, and the plain interpreter.

Run by that interpreter. What is left out cannot work in a static program without a display or a
terminal library, or serves CPython's own tests.
"""

import argparse
import ast
import pathlib
import shutil

# The prefix that configure was given; it exists on no machine.
_PREFIX = "/nonexistent"

_LEFT_OUT_PACKAGES = {"curses", "ensurepip", "idlelib", "test", "tkinter", "turtledemo"}
_LEFT_OUT_FILES = {"turtle.py"}
_LEFT_OUT_ANYWHERE = {"__pycache__", "idle_test", "test", "tests"}

# Words of compiler commands that only meant something in the build directory.
_BUILD_WORDS = {
    "-I.",
    "-I./Include",
    "-Ideps/include",
    "-Ldeps/lib",
    "-fno-pie",
    "-no-pie",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    inputs = ("sources", "binary", "pyconfig", "variables")
    outputs = ("stdlib", "include", "python")
    for name in inputs + outputs:
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    args = parser.parse_args()

    install_stdlib(args.sources / "Lib", args.variables, args.stdlib)
    shutil.copytree(args.sources / "Include", args.include, dirs_exist_ok=True)
    shutil.copyfile(args.pyconfig, args.include / "pyconfig.h")

    binary = args.python / "bin" / "python3.11"
    binary.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(args.binary, binary)
    binary.chmod(0o755)
    shutil.copytree(args.stdlib, args.python / "lib" / "python3.11", dirs_exist_ok=True)


def install_stdlib(library: pathlib.Path, variables: pathlib.Path, target: pathlib.Path) -> None:
    """The contents of lib/python3.11: sources, the data beside them, and the build's variables."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        drop = _LEFT_OUT_ANYWHERE
        if pathlib.Path(folder) == library:
            drop = drop | _LEFT_OUT_PACKAGES | _LEFT_OUT_FILES
        return drop.intersection(names)

    shutil.copytree(library, target, ignore=left_out, dirs_exist_ok=True)
    # getpath looks for this folder to know where it is; a tree artifact keeps no empty ones.
    marker = target / "lib-dynload" / "README"
    marker.parent.mkdir()
    marker.write_text("Every C module of the standard library is inside the interpreter.\n")
    # The name that `sysconfig` imports: no ABI flags, and the platform twice.
    name = "_sysconfigdata__linux_x86_64-linux-gnu.py"
    (target / name).write_text(portable_variables(variables.read_text()))


def portable_variables(source: str) -> str:
    """The source of a _sysconfigdata module, made to follow the interpreter wherever it goes."""
    variables = ast.literal_eval(source.partition("build_time_vars = ")[2])
    # configure's command line says how this build was made, not how to make an extension.
    variables["CONFIG_ARGS"] = ""
    for name, value in variables.items():
        if isinstance(value, str):
            words = [_tool_name(word) for word in value.split(" ") if word not in _BUILD_WORDS]
            variables[name] = " ".join(words)
    lines = [
        "# Variables of the build; paths are relative to wherever the interpreter is now.",
        "import sys",
        "",
        "build_time_vars = {",
        *(f"    {name!r}: {value!r}," for name, value in sorted(variables.items())),
        "}",
        "build_time_vars = {",
        f"    name: value.replace({_PREFIX!r}, sys.base_prefix) if isinstance(value, str) else value",
        "    for name, value in build_time_vars.items()",
        "}",
        "",
    ]
    return "\n".join(lines)


def _tool_name(word: str) -> str:
    """A program of the build machine by its name alone: where it stood depends on PATH there."""
    folder, _, name = word.rpartition("/")
    return name if folder.endswith("/bin") and not folder.startswith(_PREFIX) else word


if __name__ == "__main__":
    main()
