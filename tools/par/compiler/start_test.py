# SPDX-License-Identifier: Apache-2.0
"""Test that programs start and exit fast, and that PARs used as interpreters act like CPython.

Fast means that the garbage collector never scans the objects that a large import creates, and that
the process exits without finalizing the interpreter.
"""

from __future__ import annotations

import os
import py_compile
import signal
import subprocess
import zipfile
from pathlib import Path

import pytest

from tools.par.compiler.link import link

_WORKSPACE = Path(__file__).parents[3]
_FILES = {
    "app/large.py": """\
import gc, os, sys

ROWS = [[] for _ in range(20_000)]
SCANS = []

def watch(phase, info):
    if phase == "start":
        scanned = range(info["generation"] + 1)
        if any(value is ROWS for number in scanned for value in gc.get_objects(number)):
            SCANS.append(info["generation"])

class Last:
    def __del__(self, write=os.write):
        write(1, b"teardown\\n")

gc.callbacks.append(watch)
sys.last = Last()  # the teardown clears sys
""",
    "app/seen.py": """\
from app import large

def show():
    small = [[] for _ in range(2_000)]
    print("scanned" if large.SCANS else "not scanned", flush=True)

if __name__ == "__main__":
    show()
""",
    "app/main.py": """\
import sys

def child():
    from app import seen
    seen.show()

def main():
    if sys.argv[1:] == ["direct"]:
        child()
    elif sys.argv[1:] == ["sys.executable"]:
        import subprocess
        subprocess.run([sys.executable, "-c", "from app import seen; seen.show()"], check=True)
    elif sys.argv[1:] == ["DataLoader"]:
        import multiprocessing
        process = multiprocessing.get_context("spawn").Process(target=child, daemon=True)
        process.start()
        process.join()

if __name__ == "__main__":
    main()
""",
}


@pytest.fixture(scope="module")
def par(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("par")
    rows = []
    for name, text in _FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        rows.append((name, str(path)))
    link(
        folder / "program.par",
        launcher=_WORKSPACE / "tools/par/launcher/launcher",
        bundles=[_WORKSPACE / f"tools/par/runtime/{name}.parlib" for name in ("stdlib", "runtime")],
        files=rows,
        settings={"main": "app.main", "fast_exit": True, "startup_gc": False},
        info={},
    )
    return folder / "program.par"


def _run(
    par: Path, *arguments: str | Path, stdin: str = "", **doors: str
) -> subprocess.CompletedProcess[str]:
    environment = {"PAR_CACHE_DIR": str(par.parent / "cache"), "PATH": os.environ["PATH"], **doors}
    return subprocess.run(
        [par, *arguments], env=environment, input=stdin, capture_output=True, text=True, check=False
    )


def _interpret(
    par: Path, *arguments: str | Path, stdin: str = "", **doors: str
) -> subprocess.CompletedProcess[str]:
    return _run(par, *arguments, stdin=stdin, PAR_INTERPRETER="1", **doors)


_STARTS: dict[str, tuple[list[str], dict[str, str]]] = {
    "direct": (["direct"], {}),
    "door with -c": (["-c", "from app import seen; seen.show()"], {"PAR_INTERPRETER": "1"}),
    "door with -m": (["-m", "app.seen"], {"PAR_INTERPRETER": "1"}),
    "door with a file": (["{script}"], {"PAR_INTERPRETER": "1"}),
    "door of a module": ([], {"PAR_MAIN": "app.seen"}),
    "door of a function": ([], {"PAR_MAIN": "app.seen:show"}),
    "child of sys.executable": (["sys.executable"], {}),
    "child of multiprocessing": (["DataLoader"], {}),
}


@pytest.mark.parametrize("kind", _STARTS)
def test_a_start_is_fast(par: Path, tmp_path: Path, kind: str) -> None:
    script = tmp_path / "script.py"
    script.write_text("from app import seen\nseen.show()\n")
    arguments, doors = _STARTS[kind]
    words = [word.format(script=script) for word in arguments]
    fast = _run(par, *words, **doors)
    assert (fast.returncode, fast.stdout, fast.stderr) == (0, "not scanned\n", "")
    slow = _run(par, *words, **doors, PAR_FAST_EXIT="0")
    assert (slow.returncode, slow.stdout) == (0, "not scanned\nteardown\n"), "the probe is broken"


def test_the_collector_still_frees_what_an_import_left(par: Path) -> None:
    code = (
        "import gc, weakref\n"
        "from app import seen, large\n"
        "class Node: pass\n"
        "node = Node(); node.itself = node; gone = weakref.ref(node); del node\n"
        "del large.ROWS\n"
        "print(gc.isenabled(), gc.get_freeze_count(), gc.collect() > 0, gone() is None)\n"
    )
    done = _interpret(par, "-c", code)
    assert done.stdout == "True 0 True True\n", done.stderr


def test_what_the_program_froze_stays_frozen(par: Path) -> None:
    code = "import gc; gc.freeze(); from app import large; print(gc.get_freeze_count() > 0)"
    assert _interpret(par, "-c", code).stdout == "True\n"


_SHOW = """\
import sys
print(sys.argv, sys.path[:1], sys.flags, __name__, sorted(globals()), sys._getframe().f_back is None)
print(__spec__ and __spec__.name, type(__loader__), globals().get("__file__"), globals().get("__cached__"))
"""
# With PAR_FAST_EXIT=0, CPython's own Py_RunMain runs each command and defines the expected
# behavior.
_COMMANDS: dict[str, list[str]] = {
    "-c": ["-c", _SHOW, "a"],
    "-c with options": ["-O", "-W", "error", "-X", "dev", "-c", _SHOW],
    "-I": ["-I", "-c", _SHOW],
    "-P": ["-P", "{folder}/show.py"],
    "-m": ["-m", "json.tool", "{folder}/data.json"],
    "-m without a module": ["-m", "no.such"],
    "-m of a package": ["-m", "json"],
    "file": ["{folder}/show.py", "a", "-b"],
    "file without a suffix": ["{folder}/show"],
    "file with an encoding": ["{folder}/latin.py"],
    "bytecode": ["{folder}/show.pyc"],
    "directory": ["{folder}/directory"],
    "directory without a main": ["{folder}"],
    "zip": ["{folder}/show.zip"],
    "absent file": ["{folder}/absent.py"],
    "empty file": ["{folder}/empty.py"],
    "standard input": ["-", "a"],
    "-x": ["-x", "{folder}/skipped.py"],
    "syntax error": ["-c", "def ("],
    "syntax error in a file": ["{folder}/wrong.py"],
    "exception": ["-c", "def f():\n    1 / 0\nf()"],
    "exception in a file": ["{folder}/raises.py"],
    "exit status": ["-c", "raise SystemExit(300)"],
    "negative exit status": ["-c", "raise SystemExit(-2)"],
    "exit message": ["-c", "raise SystemExit('message')"],
    "exit with an attribute": ["-c", "class E(SystemExit): code = 7\nraise E(1)"],
    "-m and exit": ["-m", "json.tool", "{folder}/show.py"],
    "surrogates": ["-c", "print('\udcff')"],
    "own hook": ["-c", "import sys; sys.excepthook = lambda *a: print(a[0]); 1 / 0"],
    "atexit": ["-c", "import atexit; atexit.register(print, 1); raise SystemExit(4)"],
    "atexit and a file": ["{folder}/atexit_file.py"],
    "thread": ["-c", "import threading as t; t.Timer(0.1, print, (1,)).start(); print(2)"],
    "closed stdout": ["-c", "import sys; sys.stdout.close()"],
    "no stdout": ["-c", "import sys; sys.stdout = None"],
    "full disk": ["-c", "import sys; sys.stdout = open('/dev/full', 'w'); print(1)"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "show.py").write_text(_SHOW)
    (tmp_path / "show").write_text(_SHOW)
    (tmp_path / "skipped.py").write_text("not Python\n" + _SHOW)
    (tmp_path / "latin.py").write_bytes(b"# coding: latin-1\nprint(ascii('\xe9'))\n")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "wrong.py").write_text("x = 1\ndef (\n")
    (tmp_path / "raises.py").write_text("def f():\n    1 / 0\nf()\n")
    (tmp_path / "atexit_file.py").write_text(
        "import atexit\natexit.register(lambda: print('__file__' in globals()))\n"
    )
    (tmp_path / "data.json").write_text("[1]")
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory/__main__.py").write_text(_SHOW)
    py_compile.compile(str(tmp_path / "show.py"), str(tmp_path / "show.pyc"))
    with zipfile.ZipFile(tmp_path / "show.zip", "w") as archive:
        archive.writestr("__main__.py", _SHOW)
    return tmp_path


@pytest.mark.parametrize("name", _COMMANDS)
def test_an_interpreter_behaves_like_cpython(par: Path, folder: Path, name: str) -> None:
    words = [word.replace("{folder}", str(folder)) for word in _COMMANDS[name]]
    fast = _interpret(par, *words, stdin=_SHOW)
    slow = _interpret(par, *words, stdin=_SHOW, PAR_FAST_EXIT="0")
    expected = (slow.returncode, slow.stdout, slow.stderr)
    assert (fast.returncode, fast.stdout, fast.stderr) == expected


@pytest.mark.parametrize("word", ["-c", "-m", "file"])
def test_ctrl_c_ends_an_interpreter_by_its_signal(par: Path, tmp_path: Path, word: str) -> None:
    code = "import atexit; atexit.register(print, 'atexit'); raise KeyboardInterrupt"
    script = tmp_path / "interrupted.py"
    script.write_text(code)
    arguments = {"-c": ["-c", code], "-m": ["-m", "interrupted"], "file": [str(script)]}[word]
    start = f'cd {tmp_path} && exec {par} "$@"'
    done = subprocess.run(
        ["/bin/sh", "-c", start, "sh", *arguments],
        env={"PAR_CACHE_DIR": str(par.parent / "cache"), "PAR_INTERPRETER": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGINT, "atexit\n"), done.stderr
    assert done.stderr.endswith("KeyboardInterrupt\n")


_OPEN_FILES = {
    "text": "f = open('out', 'w'); f.write('data')",
    "bytes": "f = open('out', 'wb'); f.write(b'data')",
    "both ways": "f = open('out', 'w+b'); f.write(b'data')",
    "frozen": "import gc; f = open('out', 'w'); f.write('data'); gc.freeze()",
    "compressed": "import gzip; f = gzip.open('out', 'wt'); f.write('data')",
    "archive": "import zipfile; f = zipfile.ZipFile('out', 'w'); f.writestr('a', 'data')",
    "pipe": (
        "import subprocess as s; p = s.Popen(['cat'], stdin=s.PIPE, stdout=open('out', 'w'))\n"
        "p.stdin.write(b'data')"
    ),
    "temporary": "import tempfile; f = tempfile.NamedTemporaryFile(dir='.'); f.write(b'data')",
    "C": "import ctypes; ctypes.CDLL(None).printf(b'%s', b'data')",
}


@pytest.mark.parametrize("name", _OPEN_FILES)
def test_an_open_file_is_finished_as_by_the_teardown(par: Path, tmp_path: Path, name: str) -> None:
    contents = []
    for fast in ("1", "0"):
        folder = tmp_path / fast
        folder.mkdir()
        code = f"import os; os.chdir({str(folder)!r})\n{_OPEN_FILES[name]}"
        # This call also waits until cat exits, because cat has inherited the pipe for stderr.
        done = _interpret(par, "-c", code, PAR_FAST_EXIT=fast)
        assert (done.returncode, done.stderr) == (0, "")
        contents.append((done.stdout, {path.name: _payload(path) for path in folder.iterdir()}))
    assert contents[0] == contents[1]
    assert contents[1] != ("", {}) or name == "temporary"


def _payload(path: Path) -> bytes:
    """Return a file's contents or, for a gzip or zip file, the end, which has no timestamps."""
    data = path.read_bytes()
    return data[-16:] if data.startswith((b"\x1f\x8b", b"PK")) else data
