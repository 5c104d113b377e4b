# SPDX-License-Identifier: Apache-2.0
"""Run the program's main module and convert its outcome to an exit status."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, cast

import _par

from par_runtime import leaving

if TYPE_CHECKING:
    from importlib.abc import InspectLoader

    from _par_importer import Runtime

_PRINTING_DOORS = ("PAR_HELP", "PAR_INFO", "PAR_LIST")


def run(runtime: Runtime) -> int:
    """Run the code that PAR_* variables request, or else the main module.

    Return the exit status, or minus the signal number if a signal must kill the process. With fast
    exit, which is the default, exit the process instead of returning: see leaving.py.
    """
    fast = leaving.is_fast(runtime)
    status = _guarded(lambda: _choose(runtime))
    if fast:
        leaving.leave(status)
        _par.exit(status & 0xFF or 120)
    gc.freeze()  # collecting garbage at exit would waste time
    return status


def _choose(runtime: Runtime) -> None:
    values = {name: os.environ.pop(name, "0") for name in _PRINTING_DOORS}
    target = os.environ.pop("PAR_MAIN", "") or runtime.settings["main"]
    asked = {name: value for name, value in values.items() if value not in ("", "0")}
    if asked:
        from par_runtime import doors

        doors.show(runtime, asked)
        return
    module, _, function = target.partition(":")
    if function:
        sys.exit(_find_function(runtime, module, function)())
    main = _prepare_main(runtime, module)
    if module == runtime.settings["main"] and not runtime.settings.get("startup_gc"):
        _import_early(runtime)
    main()


def _find_function(runtime: Runtime, module: str, name: str) -> Callable[[], str | int | None]:
    import importlib

    _find_module(runtime, module)
    function = getattr(importlib.import_module(module), name, None)
    if not callable(function):
        raise SystemExit(f"{runtime.program}: module {module} has no function {name!r} to run")
    return cast("Callable[[], str | int | None]", function)


def _find_module(runtime: Runtime, name: str) -> ModuleSpec:
    """Return the spec of the module `name`. Raises SystemExit if it is missing or cannot be run."""
    import importlib.util

    if not all(part.isidentifier() for part in name.split(".")):
        raise SystemExit(
            f"{runtime.program}: {name!r} is not a module's full name; write PAR_MAIN=package.module"
        )
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # a parent package exists, but imports a module that does not
        spec = None
    except ValueError:  # find_spec raises this for a loaded module without a spec: __main__
        spec = None
    if spec is None or spec.loader is None or not hasattr(spec.loader, "get_code"):
        known = sorted(n for n in runtime.modules if n.endswith("." + name.rpartition(".")[2]))
        hint = f"; did you mean {known[0]}?" if known else ""
        raise SystemExit(f"{runtime.program}: no module {name!r} to run{hint}")
    return spec


def _prepare_main(runtime: Runtime, name: str) -> Callable[[], None]:
    """Return a function that runs a module as `python -m name` does, but without runpy.

    The __main__ module keeps its spec, because spawned child processes need it.
    """
    spec = _find_module(runtime, name)
    if spec.submodule_search_locations is not None:
        spec = _find_module(runtime, f"{name}.__main__")
    code = cast("InspectLoader", spec.loader).get_code(spec.name)
    if code is None:
        raise SystemExit(
            f"{runtime.program}: module {name!r} is compiled into the program and has no code to "
            "run as the main module; name a module of Python code"
        )
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__dict__.update(
        __spec__=spec,
        __loader__=spec.loader,
        __file__=spec.origin,
        __package__=spec.parent,
        __cached__=None,
        __builtins__=sys.modules["builtins"],
    )
    return lambda: exec(code, module.__dict__)


def _import_early(runtime: Runtime) -> None:
    """Import, in order, the modules that the main module imports before its other statements.

    If these imports are large, freeze all live objects, so that the garbage collector never scans
    them again. The collector is disabled until then, because otherwise the first allocation after
    an import would trigger a scan of everything that the import created.
    """
    pause = gc.isenabled()
    if pause:
        gc.disable()
    try:
        for name in runtime.settings.get("early_imports", ()):
            __import__(name)
        runtime.freeze_large_imports()
    finally:
        if pause:
            gc.enable()


def _guarded(program: Callable[[], None]) -> int:
    try:
        program()
    except SystemExit as error:
        if _wants_trace():
            sys.excepthook(type(error), error, error.__traceback__)
        return _exit_status(error.code)
    except KeyboardInterrupt as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return -signal.SIGINT
    except BaseException as error:  # noqa: BLE001  # printed, as the interpreter does
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_frame.f_globals.get("__name__") == __name__:
            traceback = traceback.tb_next  # leave out this module's frames
        sys.excepthook(type(error), error.with_traceback(traceback), traceback)
        return 1
    return 0


def _wants_trace() -> bool:
    return os.environ.get("PAR_DEBUG", "0") not in ("", "0")


def _exit_status(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1
