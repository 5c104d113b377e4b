# SPDX-License-Identifier: Apache-2.0
"""Public rules: programs as one file, and tests in the same interpreter."""

load("@bazel_skylib//rules:write_file.bzl", "write_file")
load("@rules_python//python:defs.bzl", "py_library")
load("//tools/par/private:bundle.bzl", _par_wheel = "par_wheel")
load("//tools/par/private:launcher.bzl", "par_launcher")
load(
    "//tools/par/private:program.bzl",
    "par_packed",
    "par_packed_test",
    "par_program",
    "par_program_test",
    _par_shared_test = "par_shared_test",
)
load("//tools/par/private:providers.bzl", _ParInfo = "ParInfo", _ParPackedInfo = "ParPackedInfo")
load(
    "//tools/par/private:static_extension.bzl",
    _par_cc_extension = "par_cc_extension",
    _par_extensions = "par_extensions",
)

ParInfo = _ParInfo
ParPackedInfo = _ParPackedInfo
par_cc_extension = _par_cc_extension
par_extensions = _par_extensions
par_shared_test = _par_shared_test
par_wheel = _par_wheel

_COMMON = ["tags", "testonly", "compatible_with", "target_compatible_with"]

def _module(file):
    package = native.package_name()
    path = file.lstrip(":")
    return ((package + "/" if package else "") + path).removesuffix(".py").replace("/", ".")

def _program(name, srcs, deps, data, imports, static_extensions, kwargs):
    """Declare the library and the launcher of a program. Return attributes for its rules."""
    shared = {key: kwargs[key] for key in _COMMON if key in kwargs}
    py_library(
        name = name + ".lib",
        srcs = srcs,
        data = data,
        imports = imports,
        visibility = ["//visibility:private"],
        deps = deps,
        **shared
    )
    attributes = {"lib": name + ".lib"}
    if static_extensions:
        par_launcher(
            name = name + ".launcher",
            static_extensions = static_extensions,
            visibility = ["//visibility:private"],
            **shared
        )
        attributes["launcher"] = name + ".launcher"
        attributes["licences"] = name + ".launcher.licences"
    return attributes

def par_binary(
        name,
        main,
        srcs = [],
        deps = [],
        data = [],
        imports = [],
        static_extensions = [],
        **kwargs):
    """A Python program: `NAME` runs from the runfiles tree, `NAME.par` is one file.

    Both have the same interpreter and importer. In `NAME`, edits take effect immediately.

    Args:
      name: name of the program.
      main: its main file; added to srcs if missing.
      srcs: its own Python files.
      deps: py_library and wheel targets.
      data: files packed with it, read through importlib.resources.
      imports: additional import roots: directories relative to the package.
      static_extensions: par_cc_extension targets to link into the interpreter.
      **kwargs: fast_exit (default True: skip the interpreter's teardown at exit), startup_gc
        (default False; True: leave the garbage collector on while modules are imported), doors
        (default True; False: ignore the environment variables PAR_*), cuda (default "packed";
        "system": with --config=cuda, leave the libraries of CUDA to the machine), env, and common
        attributes.
    """
    if main not in srcs:
        srcs = srcs + [main]
    attributes = dict(kwargs, **_program(name, srcs, deps, data, imports, static_extensions, kwargs))
    attributes["main_module"] = _module(main)
    par_program(name = name, **attributes)
    par_packed(name = name + ".par", **attributes)

def par_test(
        name,
        srcs,
        deps = [],
        data = [],
        imports = [],
        static_extensions = [],
        sample = 1,
        packed = False,
        **kwargs):
    """Runs pytest on srcs, in the hermetic interpreter.

    Args:
      name: name of the test.
      srcs: test files, and the modules and conftest.py files that they need.
      deps: py_library and wheel targets; pytest is added.
      data: files for the tests.
      imports: as in par_binary.
      static_extensions: as in par_binary.
      sample: without --config=full, one in this many cases of each test function runs.
      packed: True to test inside a packed PAR, False (faster) to run from the runfiles tree.
      **kwargs: env, and attributes of every test rule.
    """
    _test(name, srcs, deps, data, imports, static_extensions, packed, sample, "", kwargs)

def par_tests(
        name,
        srcs,
        deps = [],
        data = [],
        shards = 1,
        warm_imports = [],
        sample = 1,
        packed = False,
        **kwargs):
    """Runs pytest on many test files as one target, each file in its own process.

    The processes are forked from one that has imported `warm_imports`, so torch and JAX are imported
    once, not once per file. `bazel test NAME --test_filter=FILE_STEM` runs one file.

    Args:
      name: name of the target.
      srcs: test files, usually a glob, and the modules and conftest.py files that they need.
      deps: py_library and wheel targets; pytest is added.
      data: files for the tests.
      shards: number of shards with --config=full. They run in parallel, and each gets some of the
        files. Otherwise, .bazelrc disables sharding.
      warm_imports: modules to import before the fork. They must start no thread.
      sample: as in par_test.
      packed: as in par_test.
      **kwargs: env, and attributes of every test rule.
    """
    files = [src for src in srcs if src.endswith("_test.py")]
    if shards > len(files):
        fail("%s: %d shards for %d test files; ask for fewer" % (name, shards, len(files)))
    if shards > 1:
        kwargs = dict(kwargs, shard_count = shards)
    arguments = ", forked=True, warm_imports=%s" % repr(warm_imports)
    _test(name, srcs, deps, data, [], [], packed, sample, arguments, kwargs)

def _test(name, srcs, deps, data, imports, static_extensions, packed, sample, arguments, kwargs):
    """Declare a pytest target. arguments: further arguments of pytest_main.run, as source code."""
    kwargs = dict(kwargs)
    kwargs.setdefault("testonly", True)
    tags = kwargs.get("tags", [])
    if sample > 1 or "@pypi//hypothesis" in deps:
        # Without --config=full, this target runs only some of its cases, or fewer examples of each
        # property test. The tag `budget` tells CI to run it in full as well.
        tags = depset(tags + ["budget"]).to_list()
        kwargs["tags"] = tags
    arguments += ", sample=%d, in_full_run=%s" % (sample, "budget" in tags or "full" in tags)
    main = name + "_pytest_main.py"
    package = native.package_name()
    tests = [(package + "/" if package else "") + src.lstrip(":") for src in srcs]
    write_file(
        name = name + ".main",
        out = main,
        content = [
            "import sys",
            "",
            "from tools.par.testing import pytest_main",
            "",
            # multiprocessing's spawned children also import this module, but not as __main__.
            'if __name__ == "__main__":',
            "    sys.exit(pytest_main.run(__file__, __name__, %s%s))" % (tests, arguments),
            "",
        ],
        testonly = True,
    )
    deps = deps + [Label("//tools/par/testing:pytest_main")]
    attributes = _program(name, srcs + [main], deps, data, imports, static_extensions, kwargs)
    attributes = dict(kwargs, **attributes)
    rule = par_packed_test if packed else par_program_test
    rule(name = name, main_module = _module(main), **attributes)
