# SPDX-License-Identifier: Apache-2.0
"""C extensions that are linked into the interpreter instead of loaded from files."""

load("@rules_cc//cc:defs.bzl", "CcInfo", "cc_common", "cc_library")
load(":providers.bzl", "ParExtensionInfo")

def _par_extensions_impl(ctx):
    return [
        cc_common.merge_cc_infos(cc_infos = [library[CcInfo] for library in ctx.attr.libraries]),
        ParExtensionInfo(modules = ctx.attr.modules),
    ]

par_extensions = rule(
    implementation = _par_extensions_impl,
    doc = "Extension modules of C libraries that are there already, whatever their functions are called.",
    attrs = {
        "libraries": attr.label_list(providers = [CcInfo]),
        "modules": attr.string_dict(
            doc = "Dotted name of a module -> the C function that makes it.",
            mandatory = True,
        ),
    },
)

def par_cc_extension(name, module, srcs, deps = [], local_defines = [], visibility = None, **kwargs):
    """A C or C++ extension module for `static_extensions` of par_binary.

    Its PyInit function gets the full dotted name, so that two extensions whose names end
    alike can be in one program.

    Args:
      name: name of the target.
      module: dotted name that it is imported by, such as "pkg._native".
      srcs: C and C++ files.
      deps: cc_library targets.
      local_defines: of the cc_library.
      visibility: of the target.
      **kwargs: of the cc_library (copts, hdrs, ...).
    """
    short = "PyInit_" + module.split(".")[-1]
    init = "PyInit_" + module.replace("_", "_u").replace(".", "__")
    cc_library(
        name = name + ".cc",
        srcs = srcs,
        local_defines = local_defines + (["%s=%s" % (short, init)] if short != init else []),
        visibility = ["//visibility:private"],
        deps = deps + [Label("//third_party/python:libpython")],
        **kwargs
    )
    par_extensions(
        name = name,
        libraries = [name + ".cc"],
        modules = {module: init},
        visibility = visibility,
        **{key: kwargs[key] for key in ["tags", "testonly"] if key in kwargs}
    )

def _table_impl(ctx):
    extensions = {}
    for target in ctx.attr.extensions:
        for module, init in target[ParExtensionInfo].modules.items():
            if module in extensions:
                fail("%s: two static extensions are called %s; remove one" % (ctx.label, module))
            extensions[module] = init
    lines = ['#include "tools/par/launcher/static_extensions.h"']
    lines += ["PyObject* %s(void);" % init for init in extensions.values()]
    lines.append("const struct par_static_extension par_static_extensions[] = {")
    lines += ['    {"%s", %s},' % item for item in sorted(extensions.items())]
    lines += ["    {NULL, NULL},", "};", ""]
    output = ctx.actions.declare_file(ctx.label.name + ".c")
    ctx.actions.write(output, "\n".join(lines))
    return [DefaultInfo(files = depset([output]))]

static_extension_table = rule(
    implementation = _table_impl,
    attrs = {"extensions": attr.label_list(providers = [ParExtensionInfo])},
)
