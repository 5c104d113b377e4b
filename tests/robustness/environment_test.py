# SPDX-License-Identifier: Apache-2.0
"""No environment variable of CPython 3.11 changes which code a PAR runs."""

from __future__ import annotations

import pathlib

import pytest

from tests.robustness import subject

_CODE = "print('code of the environment')\n"
# Variables that a PAR honors, because they change how the program runs but not which code it runs.
_OBEYED = {
    "PYTHONFAULTHANDLER": ("1", "import faulthandler; print(faulthandler.is_enabled())", "True"),
    "PYTHONHASHSEED": ("0", "import sys; print(sys.flags.hash_randomization)", "0"),
    "PYTHONUNBUFFERED": ("1", "import sys; print(sys.stdout.write_through)", "True"),
    "PYTHONWARNINGS": ("error", "import sys; print(sys.warnoptions)", "['error']"),
}
# Variables that a PAR honors, because the standard library uses their values only as data.
_DATA = {
    "PYTHONDOCS": ("http://127.0.0.1/", "import pydoc; print(pydoc.Doc.PYTHONDOCS)"),
    "PYTHONTZPATH": ("/no/zones", "import zoneinfo; print(*zoneinfo.TZPATH)"),
    "PYTHONUSERBASE": (
        "/no/base",
        "import sysconfig; print(sysconfig.get_path('data', 'posix_user'))",
    ),
}
_FLAGS = "import sys; print(sys.flags[:], sys.path, sys.prefix, sys.warnoptions, sys._xoptions)"
# Variables that a PAR ignores, each with code whose output would change if the PAR honored it.
_IGNORED = {
    "PYTHONASYNCIODEBUG": ("1", "import asyncio.coroutines as c; print(c._is_debug_mode())"),
    "PYTHONCASEOK": ("1", "import JSON"),
    "PYTHONCOERCECLOCALE": ("warn", _FLAGS),
    "PYTHONDEBUG": ("3", _FLAGS),
    "PYTHONDEVMODE": ("1", _FLAGS),
    "PYTHONDONTWRITEBYTECODE": ("", "import sys; print(sys.dont_write_bytecode)"),
    "PYTHONDUMPREFS": ("1", _FLAGS),
    "PYTHONDUMPREFSFILE": ("/dev/stdout", _FLAGS),
    "PYTHONEXECUTABLE": ("/no/python", "import sys; print(sys.executable)"),
    "PYTHONHOME": ("{folder}", _FLAGS),
    "PYTHONINSPECT": ("1", _FLAGS),
    "PYTHONINTMAXSTRDIGITS": ("1000", "import sys; print(sys.get_int_max_str_digits())"),
    "PYTHONIOENCODING": ("latin-1", "import sys; print(sys.stdout.encoding)"),
    "PYTHONLEGACYWINDOWSFSENCODING": ("1", _FLAGS),
    "PYTHONLEGACYWINDOWSSTDIO": ("1", _FLAGS),
    "PYTHONMALLOC": ("debug", _FLAGS),
    "PYTHONMALLOCSTATS": ("1", _FLAGS),
    "PYTHONNODEBUGRANGES": ("1", "print((lambda: 0).__code__.co_positions().__next__())"),
    "PYTHONNOUSERSITE": ("1", _FLAGS),
    "PYTHONOPTIMIZE": ("2", _FLAGS),
    "PYTHONPATH": ("{folder}", "import sys; print(sys.path); import evil"),
    "PYTHONPLATLIBDIR": ("evil", "import sys; print(sys.platlibdir)"),
    "PYTHONPROFILEIMPORTTIME": ("1", _FLAGS),
    "PYTHONPYCACHEPREFIX": ("{folder}", "import sys; print(sys.pycache_prefix)"),
    "PYTHONSAFEPATH": ("1", _FLAGS),
    "PYTHONSTARTUP": ("{folder}/evil.py", _FLAGS),
    "PYTHONTHREADDEBUG": ("1", _FLAGS),
    "PYTHONTRACEMALLOC": ("1", "import tracemalloc; print(tracemalloc.is_tracing())"),
    "PYTHONUTF8": ("0", _FLAGS),
    "PYTHONVERBOSE": ("1", _FLAGS),
    "PYTHONWARNDEFAULTENCODING": ("1", _FLAGS),
    "PYTHON_DOM": ("evil", "import xml.dom; print(type(xml.dom.getDOMImplementation()))"),
    "_PYTHON_HOST_PLATFORM": ("evil", "import sysconfig; print(sysconfig.get_platform())"),
    "_PYTHON_PROJECT_BASE": ("{folder}", "import sysconfig; print(sysconfig._PROJECT_BASE)"),
    "_PYTHON_SYSCONFIGDATA_NAME": (
        "evil",
        "import sysconfig; print(sysconfig._get_sysconfigdata_name())",
    ),
}


def _answer(folder: pathlib.Path, code: str, **variables: str) -> tuple[int, str, str]:
    outcome = subject.run(
        [subject.PROBE, "-c", code],
        environment={"PAR_CACHE_DIR": str(folder / "cache"), "PAR_INTERPRETER": "1", **variables},
    )
    return outcome.status, outcome.out, outcome.err


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "evil.py").write_text(_CODE)
    (tmp_path / "Modules").mkdir()
    # Python treats a directory with the file Modules/Setup as its build directory.
    (tmp_path / "Modules" / "Setup").write_text("")
    return tmp_path


@pytest.mark.parametrize("name", sorted(_IGNORED))
def test_a_variable_is_ignored(folder: pathlib.Path, name: str) -> None:
    value, code = _IGNORED[name]
    plain = _answer(folder, code)
    assert _answer(folder, code, **{name: value.format(folder=folder)}) == plain


@pytest.mark.parametrize("name", sorted(_OBEYED))
def test_a_variable_changes_how_it_runs(folder: pathlib.Path, name: str) -> None:
    value, code, expected = _OBEYED[name]
    assert _answer(folder, code, **{name: value}) == (0, f"{expected}\n", "")
    assert _answer(folder, code)[1] != f"{expected}\n"


@pytest.mark.parametrize("name", sorted(_DATA))
def test_a_variable_is_data(folder: pathlib.Path, name: str) -> None:
    value, code = _DATA[name]
    status, out, err = _answer(folder, code, **{name: value})
    assert (status, err) == (0, "")
    assert value in out


@pytest.mark.parametrize("option", ["error::antigravity.x", "error:::a,once::antigravity.x:m:1"])
def test_a_category_imports_no_module(folder: pathlib.Path, option: str) -> None:
    """A PAR does not import the module that a warning filter's category refers to.

    For example, importing antigravity would run $BROWSER.
    """
    browser = f"touch {folder}/started"
    outcome = subject.run(
        [subject.PROBE],
        environment={
            "BROWSER": browser,
            "PAR_CACHE_DIR": str(folder / "cache"),
            "PATH": "/usr/bin:/bin",
            "PYTHONWARNINGS": option,
        },
    )
    outcome.assert_ran_with_warning(
        str(subject.PROBE), "PYTHONWARNINGS", "antigravity.x", "ignored"
    )
    assert not (folder / "started").exists()


def test_breakpoint_calls_the_debugger_alone(folder: pathlib.Path) -> None:
    status, out, _ = _answer(folder, "breakpoint()", PYTHONBREAKPOINT="os.abort")
    assert status == 1, "pdb ends with the input"
    assert "(Pdb)" in out
