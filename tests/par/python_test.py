# SPDX-License-Identifier: Apache-2.0
"""Python's module features, such as resources, source lines and tracebacks, work in a PAR."""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import importlib.resources
import inspect
import linecache
import os
import pathlib
import pkgutil
import re
import subprocess
import sys
import traceback
import unittest

import numpy as np
import pytest
import torch
import torch.nn
import torch.utils.model_dump

from tests.par import workers


def _python(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **extra},
    )


@pytest.mark.parametrize("arguments", [["-W", "error:a:UserWarning"], []])
def test_warning_filters_are_quiet(arguments: list[str]) -> None:
    code = "import sys, warnings; print(sys.warnoptions, hasattr(sys, 'last_value'), "
    code += "warnings.filters[0][0])"
    child = _python(*arguments, "-c", code, PYTHONWARNINGS="" if arguments else "error")
    expected = arguments[1:] or ["error"]
    assert (child.stdout, child.stderr) == (f"{expected} False error\n", "")


def test_resources_are_read_as_text_bytes_and_files() -> None:
    page = importlib.resources.files("torch.utils.model_dump") / "skeleton.html"
    assert page.is_file()
    assert "<html" in page.read_text().lower()
    with importlib.resources.as_file(page) as path:
        assert path.read_bytes() == page.read_bytes()


def test_resources_are_listed() -> None:
    names = {entry.name for entry in importlib.resources.files("torch.utils.model_dump").iterdir()}
    assert {"__init__.py", "skeleton.html", "code.js"} <= names


def test_distributions_tell_their_version() -> None:
    # PyPI's wheels for CUDA have a local version, such as +cu130, only in torch.__version__.
    local = "" if torch.version.cuda is None else f"+cu{torch.version.cuda.replace('.', '')}"
    assert f"{importlib.metadata.version('torch')}{local}" == torch.__version__
    assert importlib.metadata.version("numpy") == np.__version__


def test_entry_points_are_found_without_a_look_at_what_else_distributions_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    distributions = list(importlib.metadata.distributions())
    names = {re.sub("[-_.]+", "_", d.metadata["Name"]).lower() for d in distributions}
    # importlib.metadata in the pinned Python identifies a distribution by `_normalized_name`.
    assert names == {d._normalized_name for d in distributions}  # type: ignore[attr-defined]

    def refuse(text: str) -> None:
        raise AssertionError("METADATA was parsed")

    monkeypatch.setattr("email.message_from_string", refuse)
    assert importlib.metadata.entry_points(group="torch.backends") is not None


def test_modules_of_a_package_are_listed() -> None:
    names = {module.name for module in pkgutil.iter_modules(torch.nn.__path__)}
    assert {"modules", "functional", "parameter"} <= names
    assert [m.name for m in pkgutil.iter_modules(sys.modules["tests.par"].__path__, "par.")] != []


def test_a_packages_init_is_a_module_of_it_too() -> None:
    """torch's C++ code imports the torch.onnx package as `torch.onnx.__init__`."""
    again = importlib.import_module("json.__init__")
    assert (again.__name__, again.__package__) == ("json.__init__", "json")
    assert again.loads("[1]") == [1]
    assert again is not sys.modules["json"]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("json.decoder.__init__")


def test_what_main_imports_first_is_set_apart_unseen(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "many_objects.py").write_text("objects = [[] for _ in range(101_000)]\n")
    monkeypatch.syspath_prepend(tmp_path)
    collected: list[str] = []

    def watch(phase: str, _: dict[str, int]) -> None:
        collected.append(phase)

    runner = importlib.import_module("par_runtime.runner")
    runtime = importlib.import_module("_par_importer").Runtime("packed", "program")
    runtime.settings["early_imports"] = ["many_objects"]
    gc.callbacks.append(watch)
    try:
        runner._import_early(runtime)
        frozen = gc.get_freeze_count()
    finally:
        gc.callbacks.remove(watch)
        gc.unfreeze()
    assert (collected, runtime.frozen) == ([], True)
    assert frozen > 100_000
    assert gc.isenabled()


def test_get_source_of_a_library_and_of_our_own() -> None:
    assert inspect.getsource(torch.nn.Linear.forward).lstrip().startswith("def forward(self")
    assert inspect.getsource(workers.fail).endswith('says no")\n')
    assert inspect.getsource(workers).startswith("# SPDX-License-Identifier")


def test_the_module_of_code_is_found_without_a_look_at_all_modules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import colorsys

    from torch.nn import functional

    def refuse(path: str) -> str:
        raise AssertionError(f"realpath was called for {path}")

    monkeypatch.setattr(os.path, "realpath", refuse)
    # A function stores its module's name, but a code object stores only a file name.
    assert inspect.getmodule(colorsys.rgb_to_yiq.__code__) is colorsys
    assert inspect.getmodule(functional.relu.__code__) is functional
    assert inspect.getmodule(unittest.skip.__code__) is sys.modules["unittest.case"]


def test_a_file_name_says_where_a_module_is() -> None:
    for module in (torch, torch.nn, workers):
        assert module.__file__ is not None
        assert module.__file__.endswith(module.__name__.replace(".", "/") + ".py") or (
            module.__file__.endswith(module.__name__.replace(".", "/") + "/__init__.py")
        )
    assert workers.fail.__code__.co_filename == workers.__file__
    assert linecache.getline(str(workers.__file__), 1).startswith("# SPDX")


def test_a_caught_traceback_shows_source_lines() -> None:
    try:
        torch.nn.Linear(2, 2)(torch.ones(3))
    except RuntimeError:
        text = traceback.format_exc()
    assert "return F.linear(input, self.weight, self.bias)" in text
    assert "modules/linear.py" in text


def test_an_uncaught_traceback_shows_source_lines() -> None:
    answer = _python("-c", "from tests.par import workers; workers.fail(7)")
    assert answer.returncode == 1
    assert 'raise ValueError(f"worker {rank} says no")' in answer.stderr
    assert answer.stderr.endswith("ValueError: worker 7 says no\n")


def test_the_interpreter_takes_code_modules_and_files(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys, torch; print(__name__, sys.argv[1], torch.ones(1).item())")
    assert _python("-c", "import sys; print(sys.argv)", "a").stdout == "['-c', 'a']\n"
    assert _python("-m", "platform").returncode == 0
    assert _python(str(script), "b").stdout == "__main__ b 1.0\n"


def test_an_exit_status_is_passed_on() -> None:
    assert _python("-c", "raise SystemExit(7)").returncode == 7
    assert _python("-c", "import os; os.abort()").returncode == -6


def test_output_is_flushed_and_exit_handlers_run() -> None:
    program = "import atexit; atexit.register(print, 'bye'); print('hello', end=' ')"
    assert _python("-c", program).stdout == "hello bye\n"


def test_the_environment_cannot_put_another_torch_first(tmp_path: pathlib.Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('a decoy was imported')")
    answer = _python("-c", "import torch; print(torch.__version__)", PYTHONPATH=str(tmp_path))
    assert (answer.stdout, answer.returncode) == (f"{torch.__version__}\n", 0), answer.stderr


def test_numpys_threads_do_not_look_for_work_for_long() -> None:
    ask = """
import ctypes, numpy
with open("/proc/self/maps") as maps:
    path = next(line.split()[-1] for line in maps if "libscipy_openblas" in line)
print(ctypes.CDLL(path).openblas_thread_timeout())
"""
    # In a PAR, OpenBLAS's idle threads spin for 2^22 cycles (1 to 2 ms) before they sleep.
    assert _python("-c", ask).stdout.strip() == "22"
    assert _python("-c", ask, OPENBLAS_THREAD_TIMEOUT="25").stdout.strip() == "25"


def test_numpy_computes_and_shares_memory_with_torch() -> None:
    matrix = np.array([[2.0, 1.0], [1.0, 3.0]])
    np.testing.assert_allclose(np.linalg.inv(matrix) @ matrix, np.eye(2), atol=1e-12)
    assert np.random.default_rng(0).random(3).shape == (3,)
    tensor = torch.from_numpy(matrix)
    tensor[0, 0] = 5.0
    assert matrix[0, 0] == 5.0
