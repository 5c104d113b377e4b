# SPDX-License-Identifier: Apache-2.0
"""Copies what a finished CPython build directory holds into the three trees of this room.

Run by the interpreter just built, inside that directory (see build.sh). What is left out cannot
work in a static program without a display or a terminal library, or serves CPython's own tests.
"""

import argparse
import pathlib
import shutil
import sysconfig

# The prefix that configure was given; it exists on no machine.
_PREFIX = "/nonexistent"

_LEFT_OUT_PACKAGES = {"curses", "ensurepip", "idlelib", "test", "tkinter", "turtledemo"}
_LEFT_OUT_FILES = {"turtle.py"}
_LEFT_OUT_ANYWHERE = {"__pycache__", "idle_test", "test", "tests"}

# Words of compiler commands that only meant something in the build directory.
_LOCAL_WORDS = {"-Ideps/include", "-Ldeps/lib", "-fno-pie", "-no-pie", "-I.", "-I./Include", "-IObjects", "-IInclude"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("build", "stdlib", "include", "python"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    args = parser.parse_args()

    install_stdlib(args.build, args.stdlib)
    install_headers(args.build, args.include)
    binary = args.python / "bin" / "python3.11"
    binary.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(args.build / "python", binary)
    binary.chmod(0o755)
    shutil.copytree(args.stdlib, args.python / "lib" / "python3.11", dirs_exist_ok=True)


def install_stdlib(build: pathlib.Path, target: pathlib.Path) -> None:
    """The contents of lib/python3.11: sources, the data beside them, and the build's variables."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        drop = {name for name in names if name in _LEFT_OUT_ANYWHERE}
        if pathlib.Path(folder) == build / "Lib":
            drop |= {name for name in names if name in _LEFT_OUT_PACKAGES | _LEFT_OUT_FILES}
        return drop

    shutil.copytree(build / "Lib", target, ignore=left_out, dirs_exist_ok=True)
    # getpath looks for this folder to know where it is; a tree artifact keeps no empty ones.
    marker = target / "lib-dynload" / "README"
    marker.parent.mkdir()
    marker.write_text("Every C module of the standard library is inside the interpreter.\n")
    variables = _portable_variables()
    name = sysconfig._get_sysconfigdata_name()  # type: ignore[attr-defined]
    (target / f"{name}.py").write_text(_sysconfigdata_source(variables))


def install_headers(build: pathlib.Path, target: pathlib.Path) -> None:
    """The contents of include/python3.11."""
    shutil.copytree(build / "Include", target, dirs_exist_ok=True)
    shutil.copyfile(build / "pyconfig.h", target / "pyconfig.h")


def _portable_variables() -> dict[str, object]:
    """The Makefile's variables without the build directory."""
    scratch = str(pathlib.Path.cwd())
    variables = {}
    for name, value in sorted(_makefile_variables().items()):
        if isinstance(value, str):
            words = [word for word in value.split(" ") if word not in _LOCAL_WORDS]
            value = " ".join(words) if len(words) < len(value.split(" ")) else value
            if scratch in value:
                value = value.replace(scratch, _PREFIX + "/src")
        variables[name] = value
    # configure's command line names the machine's compiler by its path in the build.
    for name in ("CC", "AR", "LINKCC", "LDSHARED", "BLDSHARED", "CONFIG_ARGS"):
        variables.pop(name, None)
    variables.update(
        AR="ar",
        BLDSHARED="gcc -shared",
        CC="gcc",
        CONFIG_ARGS="",
        LDSHARED="gcc -shared",
        LINKCC="gcc",
    )
    return variables


def _makefile_variables() -> dict[str, object]:
    folder = pathlib.Path("pybuilddir.txt").read_text().strip()
    name = sysconfig._get_sysconfigdata_name()  # type: ignore[attr-defined]
    namespace: dict[str, dict[str, object]] = {}
    exec(pathlib.Path(folder, f"{name}.py").read_text(), namespace)
    return namespace["build_time_vars"]


def _sysconfigdata_source(variables: dict[str, object]) -> str:
    lines = [
        "# Build-time variables, relative to wherever this interpreter is now.",
        "import sys",
        "",
        "build_time_vars = {",
        *(f"    {name!r}: {value!r}," for name, value in variables.items()),
        "}",
        "build_time_vars = {",
        f"    name: value.replace({_PREFIX!r}, sys.base_prefix) if isinstance(value, str) else value",
        "    for name, value in build_time_vars.items()",
        "}",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
