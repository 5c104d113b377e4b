# SPDX-License-Identifier: Apache-2.0
"""Install the standard library and the plain interpreter.

The newly built interpreter runs this script. Modules are left out if only CPython's own tests use
them, or if they cannot work in a static program without a display or a terminal library.
"""

import argparse
import ast
import pathlib
import shutil

# The prefix that build.sh passes to configure. No machine has this directory.
_PREFIX = "/nonexistent"

_LEFT_OUT_PACKAGES = {"curses", "ensurepip", "idlelib", "test", "tkinter", "turtledemo"}
_LEFT_OUT_FILES = {"turtle.py"}
_LEFT_OUT_ANYWHERE = {"__pycache__", "idle_test", "test", "tests"}

# Compiler arguments that are valid only in the build directory.
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
    inputs = ("sources", "binary", "variables")
    outputs = ("stdlib", "python")
    for name in inputs + outputs:
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    args = parser.parse_args()

    install_stdlib(args.sources / "Lib", args.variables, args.stdlib)

    binary = args.python / "bin" / "python3.11"
    binary.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(args.binary, binary)
    binary.chmod(0o755)
    shutil.copytree(args.stdlib, args.python / "lib" / "python3.11", dirs_exist_ok=True)


def install_stdlib(library: pathlib.Path, variables: pathlib.Path, target: pathlib.Path) -> None:
    """Create the contents of lib/python3.11: sources, data files and build variables."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        drop = _LEFT_OUT_ANYWHERE
        if pathlib.Path(folder) == library:
            drop = drop | _LEFT_OUT_PACKAGES | _LEFT_OUT_FILES
        return drop.intersection(names)

    shutil.copytree(library, target, ignore=left_out, dirs_exist_ok=True)
    # getpath locates the installation by searching for the folder lib-dynload. Put a file in it,
    # because Bazel's tree artifacts do not contain empty folders.
    marker = target / "lib-dynload" / "README"
    marker.parent.mkdir()
    marker.write_text("Every C module of the standard library is inside the interpreter.\n")
    # sysconfig imports the module by this name, which contains the ABI flags (none), the platform
    # and the multiarch triplet.
    name = "_sysconfigdata__linux_x86_64-linux-gnu.py"
    (target / name).write_text(portable_variables(variables.read_text()))


def portable_variables(source: str) -> str:
    """Return the source of a _sysconfigdata module, with paths made relative to the interpreter."""
    variables = ast.literal_eval(source.partition("build_time_vars = ")[2])
    # Omit configure's command line, which describes the interpreter's build and which no extension
    # module needs.
    variables["CONFIG_ARGS"] = ""
    for name, value in variables.items():
        if isinstance(value, str):
            words = [_tool_name(word) for word in value.split(" ") if word not in _BUILD_WORDS]
            variables[name] = " ".join(words)
    lines = [
        "# Variables of the build; paths are relative to the interpreter.",
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
    """Remove the folder from a tool's path, because it depends on PATH on the build host."""
    folder, _, name = word.rpartition("/")
    return name if folder.endswith("/bin") and not folder.startswith(_PREFIX) else word


if __name__ == "__main__":
    main()
