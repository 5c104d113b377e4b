# SPDX-License-Identifier: Apache-2.0
"""C extensions that are linked into the interpreter, not loaded from files."""

load("@rules_cc//cc:defs.bzl", "CcInfo", "cc_common", "cc_library")
load(":providers.bzl", "ParExtensionInfo")

def _compiled(linking_context):
    """Return the linker inputs of a program: each library either with or without PIC, not both."""
    files = []
    for linker_input in linking_context.linker_inputs.to_list():
        for library in linker_input.libraries:
            if library.static_library:
                # If the toolchain links object files directly, Bazel does not build static
                # libraries.
                files += library.objects or [library.static_library]
            elif library.pic_static_library:
                files += library.pic_objects or [library.pic_static_library]
    return files

def _par_extensions_impl(ctx):
    libraries = ctx.attr.libraries + ctx.attr.extensions
    linked = cc_common.merge_cc_infos(cc_infos = [library[CcInfo] for library in libraries])
    return [
        linked,
        DefaultInfo(files = depset(_compiled(linked.linking_context))),
        ParExtensionInfo(
            exports = _exports(ctx, ctx.attr.exports),
            modules = _merged(ctx, "modules", ctx.attr.modules),
            programs = _merged(ctx, "programs", ctx.attr.programs),
        ),
    ]

par_extensions = rule(
    implementation = _par_extensions_impl,
    doc = "Extension modules in existing C libraries, whose init functions may have any name.",
    attrs = {
        "extensions": attr.label_list(
            doc = "Other targets whose modules, programs and exports are included.",
            providers = [CcInfo, ParExtensionInfo],
        ),
        "exports": attr.string_list(
            doc = "C functions, or patterns as in version scripts, that the launcher exports to shared " +
                  "libraries loaded at run time.",
        ),
        "libraries": attr.label_list(providers = [CcInfo]),
        "modules": attr.string_dict(
            doc = "Dotted name of a module -> its C init function.",
            mandatory = True,
        ),
        "programs": attr.string_dict(
            doc = "Name that the launcher may be called by (argv[0]) -> the C function to run as main.",
        ),
    },
)

def par_cc_extension(name, module, srcs, deps = [], local_defines = [], visibility = None, **kwargs):
    """A C or C++ extension module for `static_extensions` of par_binary.

    Its PyInit function is renamed after the full dotted name, so one program can contain two
    extensions with the same last name.

    Args:
      name: name of the target.
      module: dotted module name, such as "pkg._native".
      srcs: C and C++ files.
      deps: cc_library targets.
      local_defines: passed to the cc_library.
      visibility: visibility of the target.
      **kwargs: passed to the cc_library (copts, hdrs, ...).
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

def _exports(ctx, own = []):
    return depset(own, transitive = [t[ParExtensionInfo].exports for t in ctx.attr.extensions])

def _merged(ctx, field, own = {}):
    """Return `own` merged with the dictionary `field` of each extension. Fail on a conflict."""
    merged = dict(own)
    for target in ctx.attr.extensions:
        for name, function in getattr(target[ParExtensionInfo], field).items():
            if merged.get(name, function) != function:
                fail("%s: two static %s are called %s; remove one" % (ctx.label, field, name))
            merged[name] = function
    return merged

def _table(kind, entries):
    return (
        ["const struct par_static_%s par_static_%ss[] = {" % (kind, kind)] +
        ['    {"%s", %s},' % item for item in sorted(entries.items())] +
        ["    {NULL, NULL},", "};"]
    )

def _table_impl(ctx):
    modules = _merged(ctx, "modules")
    programs = _merged(ctx, "programs")
    lines = ['#include "tools/par/launcher/static_extensions.h"']
    lines += ["PyObject* %s(void);" % init for init in modules.values()]
    lines += ["int %s(int, char**);" % main for main in programs.values()]
    lines += _table("extension", modules) + _table("program", programs) + [""]
    output = ctx.actions.declare_file(ctx.label.name + ".c")
    ctx.actions.write(output, "\n".join(lines))
    return [DefaultInfo(files = depset([output]))]

static_extension_table = rule(
    implementation = _table_impl,
    attrs = {"extensions": attr.label_list(providers = [ParExtensionInfo])},
)

def _exports_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name + ".lds")
    patterns = sorted(_exports(ctx).to_list())
    local = "  local:\n"
    ctx.actions.expand_template(
        template = ctx.file.base,
        output = output,
        substitutions = {local: "".join(["    %s;\n" % each for each in patterns]) + local},
    )
    return [DefaultInfo(files = depset([output]))]

static_extension_exports = rule(
    implementation = _exports_impl,
    doc = "The launcher's version script, with the exports of its extensions.",
    attrs = {
        "base": attr.label(allow_single_file = True, mandatory = True),
        "extensions": attr.label_list(providers = [ParExtensionInfo]),
    },
)
