# SPDX-License-Identifier: Apache-2.0
"""The first Python code of a PAR: open the archive, install the importer and run the program.

Like `_par_importer`, this module is frozen into the launcher.
"""

import _frozen_importlib as _bootstrap
import _thread
import builtins
import posix
import sys

import _par
from _par_importer import PathEntry, Runtime, read_file


def start(layout, program, file, config, interpreter, raised):
    """Install the importer, run the main module and return its exit status.

    If the PAR runs as a Python interpreter, the launcher runs the caller's code later. The result
    is then a function that exits the process with a given status, or None if the interpreter must
    be finalized normally.

    layout: "packed" or "runfiles".
    file: the path at which to open a packed program.
    config: in the "runfiles" layout, the path of the .par_config file. In the "packed" layout, the
        path of the .par_parts file, or "" if the program is one file.
    raised: whether this process has privileges that its caller lacks, for example through setuid.
    """
    runtime = Runtime(layout, program, raised, interpreter)
    if layout == "packed":
        _open_packed(runtime, file, config or None)
    else:
        _open_runfiles(runtime, config)
    _install(runtime)
    _adopt_early_modules(runtime)

    from par_runtime import executable

    sys.executable = executable.interpreter_path(runtime)
    environment = posix.environ
    for name, value in runtime.environment.items():
        if name.encode() not in environment:  # the caller's variables take precedence
            environment[name.encode()] = value.encode()
            # Native libraries read variables with getenv. Calling putenv is safe, because the
            # process still has only one thread.
            posix.putenv(name, value)
    for door in (b"PAR_TRACE_IMPORTS", b"PAR_INTERPRETER"):
        value = environment.pop(door, b"0")
        posix.unsetenv(door)  # child processes must not inherit these variables
        if door == b"PAR_TRACE_IMPORTS" and value not in (b"", b"0"):
            from par_runtime import trace

            runtime.finder.trace = trace.print_import
    if environment.get(b"PAR_STARTUP_GC", b"0") not in (b"", b"0"):
        runtime.settings["startup_gc"] = True
    if interpreter:
        _add_site_builtins()
        from par_runtime import leaving

        return leaving.leave if leaving.is_fast(runtime) else None

    from par_runtime import runner

    return runner.run(runtime)


def _open_packed(runtime, file, parts):
    archive = _par.Archive(runtime.program, file, parts)
    index = archive.index()

    def root(row):
        return f"{runtime.program}/{row[1]}" if row[1] else runtime.program

    runtime.add(archive, index, root, on_disk=False)
    runtime.settings = index["settings"]


def _open_runfiles(runtime, config):
    """Set up a program in a runfiles tree from its `.par_config` file.

    Each line of the file is a key and its values, separated by tabs. Paths are relative to the
    runfiles directory.
    """
    base = _runfiles_directory(runtime.program)
    runtime.settings = settings = {"runfiles": base}
    paths = []
    for line in read_file(config).decode().splitlines():
        key, *values = line.split("\t")
        if key == "bundle":
            packed, directory = values
            archive = _par.Archive(f"{base}/{packed}")
            root = f"{base}/{directory}"
            runtime.add(archive, archive.index(), lambda row, root=root: root, on_disk=True)
        elif key == "path":
            paths.append(f"{base}/{values[0]}")
        else:
            settings[key] = values[0] if values else ""
    _refuse_shadows(paths)
    sys.path[:] = paths + [b.virtual_root for b in runtime.bundles if b.name == "stdlib"]
    settings["python"] = f"{base}/{settings['python']}"


def _refuse_shadows(paths):
    """Exit with a one-line error if a file in `paths` has the name of a standard-library module."""
    for path in paths:
        try:
            entries = posix.listdir(path)
        except OSError:  # Bazel creates no directory for an empty import root
            continue
        for entry in entries:
            name, dot, suffix = entry.partition(".")
            if name not in sys.stdlib_module_names and name not in ("_par", "par_runtime"):
                continue
            code = suffix == "py" or suffix == "so" or suffix.endswith(".so")
            if code or (not dot and _is_file(f"{path}/{entry}/__init__.py")):
                raise SystemExit(
                    f"{path}/{entry}: module {name} of the standard library hides it; rename it "
                    "or move it into a package"
                )


def _is_file(path):
    try:
        posix.stat(path)
    except OSError:
        return False
    return True


def _runfiles_directory(program):
    directory = program + ".runfiles"
    try:
        posix.stat(directory)
        return directory
    except OSError:
        pass
    before, marker, _ = program.rpartition(".runfiles/")
    if marker:
        return before + ".runfiles"
    for name in (b"RUNFILES_DIR", b"TEST_SRCDIR"):
        if name in posix.environ:
            return posix.environ[name].decode("utf-8", "surrogateescape")
    raise SystemExit(
        f"{program}: no runfiles: {directory} does not exist; build the target again with bazel"
    )


def _install(runtime):
    sys.meta_path.insert(0, runtime.finder)
    packed = [b.virtual_root for b in runtime.bundles if not b.on_disk]

    def hook(path):
        for root in packed:
            if path == root or path.startswith(root + "/"):
                return PathEntry(runtime, runtime.finder, path)
        raise ImportError("not in the archive", path=path)

    if packed:
        sys.path_hooks.insert(0, hook)
        sys.path_importer_cache.clear()
        sys.excepthook = _show_exception
        _thread._excepthook = _show_thread_exception  # `threading` imports its hook from _thread


def _adopt_early_modules(runtime):
    """Make each frozen module refer to the spec and file of its copy in the archive, if any."""
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if spec is None or spec.loader is not _bootstrap.FrozenImporter:
            continue
        if name in runtime.modules:
            packed_spec = runtime.finder.find_spec(name)
            module.__spec__, module.__loader__ = packed_spec, packed_spec.loader
            module.__file__ = packed_spec.origin
            if packed_spec.submodule_search_locations is not None:
                module.__path__ = packed_spec.submodule_search_locations


def _show_exception(kind, value, trace):
    from par_runtime import tracebacks

    tracebacks.show(kind, value, trace)


def _show_thread_exception(arguments):
    from par_runtime import tracebacks

    tracebacks.show_in_thread(arguments)


def _add_site_builtins():
    import _sitebuiltins

    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.help = _sitebuiltins._Helper()
