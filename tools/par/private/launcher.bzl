# SPDX-License-Identifier: Apache-2.0
"""par_launcher: an interpreter, alone or with static extensions."""

load("@rules_cc//cc:defs.bzl", "cc_binary")
load(":static_extension.bzl", "static_extension_exports", "static_extension_table")

# What every program's interpreter has inside, beside the program's own: nothing, unless a build says
# otherwise (--//tools/par:base_extensions=LABEL).
BASE_EXTENSIONS = Label("//tools/par:base_extensions")

def par_launcher(name, static_extensions = [], base = [BASE_EXTENSIONS], visibility = None, **kwargs):
    """Links CPython, the PAR's C code and static extensions into one executable.

    Args:
      name: name of the executable.
      static_extensions: par_cc_extension targets.
      base: those of every program: a flag of the build.
      visibility: of the executable.
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
    cc_binary(
        name = name,
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
        visibility = visibility,
        deps = [Label("//tools/par/launcher:core")] + static_extensions,
        **kwargs
    )
