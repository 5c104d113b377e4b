# SPDX-License-Identifier: Apache-2.0
"""Bundle, link and start small programs, with the launcher that build tools use."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tools.par.compiler import main as compiler
from tools.par.compiler.bundle import BundleError
from tools.par.compiler.link import link

_WORKSPACE = Path(__file__).parents[3]
_LAUNCHER = _WORKSPACE / "tools/par/launcher/launcher"
_BASE = [
    _WORKSPACE / "tools/par/runtime/stdlib.parlib",
    _WORKSPACE / "tools/par/runtime/runtime.parlib",
]


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    return {"PAR_CACHE_DIR": str(tmp_path / "cache"), "PATH": os.environ["PATH"]}


def _sources(directory: Path, files: dict[str, str]) -> list[tuple[str, str]]:
    rows = []
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        rows.append((name, str(path)))
    return rows


def _link(
    directory: Path,
    files: dict[str, str],
    bundles: list[Path] | None = None,
    extensions: dict[str, Path] | None = None,
) -> Path:
    """Link a program. Its extensions are copies of the launcher: ELF files that nothing loads."""
    output = directory / "program.par"
    rows = _sources(directory / "src", files)
    for name, path in (extensions or {}).items():
        shutil.copy(_LAUNCHER, path)
        rows.append((name, str(path)))
    link(
        output,
        launcher=_LAUNCHER,
        bundles=_BASE + (bundles or []),
        files=sorted(rows) if extensions else rows,
        settings={"main": "app.main", "fast_exit": True, "startup_gc": False},
        info={},
    )
    return output


def _run(par: Path, env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([par, *arguments], env=env, capture_output=True, text=True, check=False)


def test_program_runs_and_knows_itself(tmp_path: Path, cache: dict[str, str]) -> None:
    par = _link(
        tmp_path,
        {
            "app/main.py": (
                "import sys, inspect\n"
                "def f():\n    return __file__\n"
                "print(sys.argv[1:], f() == f.__code__.co_filename, __spec__.name)\n"
                "print(inspect.getsource(f).splitlines()[0])\n"
            )
        },
    )
    done = _run(par, cache, "a", "b c")
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["['a', 'b c'] True app.main", "def f():"]


def test_link_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    files = {"app/main.py": "print(1)\n", "app/data.txt": "x" * 100}
    one = _link(tmp_path / "one", files).read_bytes()
    assert one == _link(tmp_path / "two", files).read_bytes()


def test_bundle_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    names = {f"pkg/m{i}.py": f"A = {{'x{i}', 'y', 'z'}}\nB = 'y'\n" for i in range(200)}
    results = []
    for where in ("one", "two"):
        _sources(tmp_path / where, names)
        output = tmp_path / f"{where}.parlib"
        status = compiler.main(
            ["bundle", f"--output={output}", "--name=pkg", str(tmp_path / where)]
        )
        assert status == 0
        results.append(output.read_bytes())
    assert results[0] == results[1]


def test_two_bundles_with_other_code_for_a_module_are_refused(tmp_path: Path) -> None:
    bundles = []
    for name in ("one", "two"):
        _sources(tmp_path / name, {"same.py": f"NAME = {name!r}\n"})
        bundles.append(tmp_path / f"{name}.parlib")
        compiler.main(["bundle", f"--output={bundles[-1]}", f"--name={name}", str(tmp_path / name)])
    with pytest.raises(BundleError, match=r"module same is in one and, with other code, in .*two"):
        _link(tmp_path, {"app/main.py": ""}, bundles)
    assert not (tmp_path / "program.par").exists()
    assert not list(tmp_path.glob("*.partial"))


def _with_environment(directory: Path, name: str, *variables: str) -> Path:
    """Write a bundle that contains a module `name` and sets environment `variables`."""
    _sources(directory / name, {f"{name}.py": ""})
    bundle = directory / f"{name}.parlib"
    asked = [f"--environment={variable}" for variable in variables]
    status = compiler.main(
        ["bundle", f"--output={bundle}", f"--name={name}", *asked, str(directory / name)]
    )
    assert status == 0
    return bundle


def test_what_libraries_shall_find_in_the_environment(
    tmp_path: Path, cache: dict[str, str]
) -> None:
    bundles = [
        _with_environment(tmp_path, "one", "SPIN=22", "ECHO=a=b"),
        _with_environment(tmp_path, "two", "SPIN=22"),
    ]
    # printenv prints the C environment, whereas os.environ is Python's copy of it.
    show = "import os, subprocess\n" + "\n".join(
        f"print(os.environ[{name!r}], flush=True)\n"
        f"subprocess.run(['printenv', {name!r}], check=True)"
        for name in ("SPIN", "ECHO")
    )
    par = _link(tmp_path, {"app/main.py": show}, bundles)
    assert _run(par, cache).stdout.split() == ["22", "22", "a=b", "a=b"]
    # A value in the caller's environment takes precedence over the bundle's value.
    assert _run(par, {**cache, "SPIN": "4"}).stdout.split() == ["4", "4", "a=b", "a=b"]


def test_two_values_for_a_variable_are_refused(tmp_path: Path) -> None:
    bundles = [
        _with_environment(tmp_path, "one", "SPIN=22"),
        _with_environment(tmp_path, "two", "SPIN=4"),
    ]
    with pytest.raises(BundleError, match=r"two\.parlib sets SPIN=4 .*another bundle SPIN=22"):
        _link(tmp_path, {"app/main.py": ""}, bundles)
    assert not (tmp_path / "program.par").exists()


def test_a_variable_without_a_value_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    status = compiler.main(
        ["bundle", f"--output={tmp_path}/x", "--name=x", "--environment=SPIN", f"{tmp_path}/empty"]
    )
    assert status != 0
    assert "--environment=SPIN: no variable; write NAME=VALUE" in capsys.readouterr().err


def test_own_source_that_does_not_compile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"main\.py: .*line 1.*fix the source"):
        _link(tmp_path, {"app/main.py": "def (\n"})


def test_exit_status_output_and_atexit(tmp_path: Path, cache: dict[str, str]) -> None:
    par = _link(
        tmp_path,
        {
            "app/main.py": (
                "import atexit, sys, threading, time\n"
                "atexit.register(print, 'atexit')\n"
                "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\n"
                "sys.exit(int(sys.argv[1]))\n"
            )
        },
    )
    for fast in ("1", "0"):
        done = _run(par, {**cache, "PAR_FAST_EXIT": fast}, "7")
        assert (done.returncode, done.stdout.split()) == (7, ["thread", "atexit"])


def test_traceback_shows_the_programs_lines_only(tmp_path: Path, cache: dict[str, str]) -> None:
    par = _link(tmp_path, {"app/main.py": "def f():\n    1 / 0\n\nf()\n"})
    done = _run(par, cache)
    assert done.returncode == 1
    assert "    1 / 0" in done.stderr
    assert "par_runtime" not in done.stderr
    assert done.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"


def test_traceback_of_a_thread_shows_lines(tmp_path: Path, cache: dict[str, str]) -> None:
    par = _link(
        tmp_path,
        {
            "app/main.py": (
                "import threading\n"
                "def f():\n    1 / 0\n"
                "t = threading.Thread(target=f, name='worker')\nt.start()\nt.join()\n"
            )
        },
    )
    done = _run(par, cache)
    assert done.returncode == 0
    assert done.stderr.startswith("Exception in thread worker:\nTraceback")
    assert "    1 / 0" in done.stderr


def test_zip_tools_list_it(tmp_path: Path) -> None:
    par = _link(tmp_path, {"app/main.py": "print(1)\n"})
    with zipfile.ZipFile(par) as archive:
        names = archive.namelist()
        assert archive.read("app/main.py") == b"print(1)\n"
    assert "app/__pycache__/main.cpython-311.pyc" in names
    assert "lib/python3.11/json/__init__.py" in names


def test_namespace_package_and_resources(tmp_path: Path, cache: dict[str, str]) -> None:
    par = _link(
        tmp_path,
        {
            "app/main.py": (
                "import importlib.resources, pkgutil, app\n"
                "print(importlib.resources.files('app').joinpath('data/x.txt').read_text())\n"
                "print([m.name for m in pkgutil.iter_modules(app.__path__)])\n"
            ),
            "app/other.py": "",
            "app/data/x.txt": "text",
        },
    )
    done = _run(par, cache)
    assert done.stdout.splitlines() == ["text", "['main', 'other']"], done.stderr


def test_metadata_is_found_without_reading_the_zip(tmp_path: Path, cache: dict[str, str]) -> None:
    par = _link(
        tmp_path,
        {
            "app/main.py": (
                "import importlib.metadata\n"
                "import zipfile\n"
                "zipfile.ZipFile.__init__ = None  # opening a zip file fails\n"
                "print(importlib.metadata.version('thing'))\n"
                "print(importlib.metadata.entry_points(group='things')['one'].value)\n"
                "try:\n    importlib.metadata.version('absent')\n"
                "except importlib.metadata.PackageNotFoundError:\n    print('absent')\n"
            ),
            "thing-1.5.dist-info/METADATA": "Metadata-Version: 2.1\nName: thing\nVersion: 1.5\n",
            "thing-1.5.dist-info/entry_points.txt": "[things]\none = app.main:main\n",
        },
    )
    done = _run(par, cache)
    assert done.stdout.splitlines() == ["1.5", "app.main:main", "absent"], done.stderr


def test_spawned_children_run_in_the_same_par(tmp_path: Path, cache: dict[str, str]) -> None:
    par = _link(
        tmp_path,
        {
            "app/main.py": (
                "import multiprocessing, sys\n"
                "def work(x):\n    return x * 2, sys.executable.endswith('python3')\n"
                "if __name__ == '__main__':\n"
                "    for method in ('spawn', 'forkserver', 'fork'):\n"
                "        with multiprocessing.get_context(method).Pool(2) as pool:\n"
                "            print(method, pool.map(work, [1, 2]))\n"
            )
        },
    )
    done = _run(par, cache)
    expected = "[(2, True), (4, True)]"
    assert done.stdout.splitlines() == [
        f"{m} {expected}" for m in ("spawn", "forkserver", "fork")
    ], done.stderr


def test_environment_cannot_change_the_code(tmp_path: Path, cache: dict[str, str]) -> None:
    par = _link(tmp_path, {"app/main.py": "import json, sys; print(json.__file__, sys.flags)\n"})
    trap = tmp_path / "trap"
    _sources(trap, {"json/__init__.py": "raise SystemExit('trapped')\n"})
    done = _run(par, {**cache, "PYTHONPATH": str(trap), "PYTHONHOME": str(trap)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{par}/lib/python3.11/json/")


def test_interpreter_door(tmp_path: Path, cache: dict[str, str]) -> None:
    par = _link(tmp_path, {"app/main.py": "print('main')\n"})
    env = {**cache, "PAR_INTERPRETER": "1"}
    assert _run(par, env, "-c", "print(6 * 7)").stdout == "42\n"
    assert _run(par, env, "-m", "json.tool", "--help").stdout.startswith("usage:")
    script = tmp_path / "script.py"
    script.write_text("import sys; print(sys.argv, 'PAR_INTERPRETER' in __import__('os').environ)")
    assert _run(par, env, str(script), "x").stdout == f"{[str(script), 'x']} False\n"


def test_main_door(tmp_path: Path, cache: dict[str, str]) -> None:
    par = _link(
        tmp_path,
        {
            "app/main.py": "print('main')\n",
            "app/tool.py": "def go():\n    print('go')\n    return 3\n",
        },
    )
    done = _run(par, {**cache, "PAR_MAIN": "app.tool:go"})
    assert (done.returncode, done.stdout) == (3, "go\n")
    done = _run(par, {**cache, "PAR_MAIN": "app.tol"})
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "no module 'app.tol'" in done.stderr


_SHADOWS = ["random.py", "logging.py", "json/__init__.py", "time.py", "sys.py", "par_runtime/x.py"]


@pytest.mark.parametrize("name", [*_SHADOWS, "_struct.cpython-311-x86_64-linux-gnu.so"])
def test_a_file_that_hides_a_standard_module_is_refused(tmp_path: Path, name: str) -> None:
    module = name.partition("/")[0].partition(".")[0]
    with pytest.raises(BundleError, match=rf"src/{name}: .*{module}.*; rename it"):
        _link(tmp_path, {"app/main.py": "", name: "A = 1\n"})
    assert not (tmp_path / "program.par").exists()


@pytest.mark.parametrize("name", ["app/random.py", "app/logging/__init__.py", "random/data.txt"])
def test_a_standard_name_in_a_package_is_the_programs_own(
    tmp_path: Path, cache: dict[str, str], name: str
) -> None:
    par = _link(tmp_path, {"app/main.py": "import random, logging; print(1)\n", name: ""})
    done = _run(par, cache)
    assert (done.stdout, done.stderr) == ("1\n", "")


@pytest.mark.parametrize("is_package", [False, True])
def test_an_extension_precedes_a_module_but_not_a_package(
    tmp_path: Path, cache: dict[str, str], is_package: bool
) -> None:
    module = "app/twin/__init__.py" if is_package else "app/twin.py"
    files = {
        "app/main.py": (
            "import importlib.util\n"
            "print(importlib.util.find_spec('app.twin').origin.rpartition('/')[2])\n"
        ),
        module: "",
    }
    extension = tmp_path / "src" / "app" / "twin.abi3.so"
    par = _link(tmp_path, files, extensions={"app/twin.abi3.so": extension})
    expected = "__init__.py" if is_package else "twin.abi3.so"
    assert _run(par, cache).stdout == f"{expected}\n"


def _runfiles(directory: Path, files: dict[str, str]) -> Path:
    """Create a program in a runfiles tree, as `bazel run` does."""
    program = directory / "program"
    program.symlink_to(_LAUNCHER)
    root = directory / "program.runfiles"
    _sources(root / "main", files)
    lines = ["main\tapp.main", "python\tmain/python3", "fast_exit\t1", "path\tmain"]
    for bundle in _BASE:
        (root / bundle.name).symlink_to(bundle)
        lines.append(f"bundle\t{bundle.name}\t{bundle.stem}")
    (directory / "program.par_config").write_text("\n".join(lines) + "\n")
    return program


@pytest.mark.parametrize(
    "name",
    [
        *("random.py", "logging.py", "json/__init__.py", "time.py"),
        *("_struct.cpython-311-x86_64-linux-gnu.so", "math.so"),
    ],
)
def test_from_runfiles_a_file_that_is_hidden_is_refused(
    tmp_path: Path, cache: dict[str, str], name: str
) -> None:
    program = _runfiles(tmp_path, {"app/main.py": "print(1)\n", name: "A = 1\n"})
    done = _run(program, cache)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert f"/main/{name.partition('/')[0]}: module" in done.stderr


def test_from_runfiles_a_data_directory_is_no_module(tmp_path: Path, cache: dict[str, str]) -> None:
    files = {"app/main.py": "import random; print(1)\n", "json/data.txt": "", "random.txt": ""}
    done = _run(_runfiles(tmp_path, files), cache)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
