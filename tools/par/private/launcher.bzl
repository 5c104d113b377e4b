# SPDX-License-Identifier: Apache-2.0
"""par_launcher: an interpreter, alone or with static extensions."""

load("@rules_cc//cc:defs.bzl", "cc_binary")
load(":bundle.bzl", "par_wheel")
load(":function_symbols.bzl", "function_symbols")
load(":licences.bzl", "licence_directory")
load(":static_extension.bzl", "static_extension_exports", "static_extension_table")

# C extensions to link into every program's interpreter in addition to the program's own. The flag
# --//tools/par:base_extensions=LABEL sets them. By default, there are none.
BASE_EXTENSIONS = Label("//tools/par:base_extensions")

def par_launcher(name, static_extensions = [], base = [BASE_EXTENSIONS], visibility = None, **kwargs):
    """Links CPython, the PAR's C code and static extensions into one executable.

    `NAME.licences` is a bundle with the licence texts of everything that is linked.

    Args:
      name: name of the executable.
      static_extensions: par_cc_extension targets.
      base: extensions of every program, from a build flag by default.
      visibility: visibility of the executable.
      **kwargs: tags, testonly.
    """
    static_extensions = static_extensions + base
    exports = Label("//tools/par/launcher:exports.lds")
    if static_extensions:
        table = name + ".table"
        static_extension_table(name = table, extensions = static_extensions, **kwargs)
        static_extension_exports(
            name = name + ".exports",
            base = exports,
            extensions = static_extensions,
            **kwargs
        )
        exports = name + ".exports"
    else:
        table = Label("//tools/par/launcher:no_static_extensions.c")
    linked = name + ".linked"
    cc_binary(
        name = linked,
        srcs = [table],
        copts = ["-O2"],
        additional_linker_inputs = [exports],
        linkopts = [
            "-Wl,--version-script=$(location %s)" % exports,
            "-no-pie",
            "-static-libgcc",
            "-Wl,--strip-debug",
        ],
        linkstatic = True,
        visibility = ["//visibility:private"],
        deps = [Label("//tools/par/launcher:core")] + static_extensions,
        **kwargs
    )
    function_symbols(
        name = name,
        linked = linked,
        visibility = visibility,
        **kwargs
    )
    licence_directory(
        name = name + ".licence_files",
        linked = [linked],
        runtime = [Label("//third_party/cc_runtime:licences")],
        **kwargs
    )
    par_wheel(
        name = name + ".licences",
        distribution = "licences",
        prefix = ".par/licences",
        site = name + ".licence_files",
        visibility = visibility,
        **kwargs
    )
