# SPDX-License-Identifier: Apache-2.0
"""`agreement_test`: checks that files mean the same when they are compiled as one unit.

It compiles them as a unit and one by one, without optimization. That takes longer than the build,
so run it by hand after a change to the chunks: see README.md.
"""

load("@rules_cc//cc:defs.bzl", "CcInfo", "cc_library")
load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")

def _archive(dependency):
    for linker_input in dependency[CcInfo].linking_context.linker_inputs.to_list():
        if linker_input.owner == dependency.label:
            library = linker_input.libraries[0]
            return library.static_library or library.pic_static_library
    fail("%s has no objects" % dependency.label)

def _agreement_impl(ctx):
    cc = find_cc_toolchain(ctx)
    report = ctx.actions.declare_file(ctx.label.name + ".txt")
    together, apart = _archive(ctx.attr.together), _archive(ctx.attr.apart)
    arguments = ctx.actions.args()
    arguments.add("-BsP", ctx.file._script)
    arguments.add("--objdump", cc.objdump_executable)
    arguments.add("--together", together)
    arguments.add("--apart", apart)
    arguments.add("--report", report)
    ctx.actions.run_shell(
        command = 'python=$1; shift; exec "$python/bin/python3.11" "$@"',
        arguments = [ctx.file._python.path, arguments],
        inputs = depset([ctx.file._script, ctx.file._python, together, apart], transitive = [cc.all_files]),
        outputs = [report],
        mnemonic = "CompareObjects",
        progress_message = "Comparing %s with its files" % ctx.label.name,
    )
    return [DefaultInfo(files = depset([report]))]

_agreement = rule(
    implementation = _agreement_impl,
    doc = "A report whose first line says whether two libraries agree.",
    attrs = {
        "apart": attr.label(mandatory = True, providers = [CcInfo]),
        "together": attr.label(mandatory = True, providers = [CcInfo]),
        "_python": attr.label(
            default = Label("//third_party/python:python3"),
            allow_single_file = True,
            cfg = "target",
        ),
        "_script": attr.label(
            default = Label("//third_party/torch/source:agreement.py"),
            allow_single_file = True,
        ),
    },
    toolchains = use_cc_toolchain(),
)

def _agreement_test_impl(ctx):
    test = ctx.actions.declare_file(ctx.label.name + ".sh")
    report = ctx.file.report
    ctx.actions.write(test, "\n".join([
        "#!/bin/sh",
        "cat %s" % report.short_path,
        "grep -q '^agree: ' %s" % report.short_path,
        "",
    ]), is_executable = True)
    return [DefaultInfo(executable = test, runfiles = ctx.runfiles([report]))]

_agreement_test = rule(
    implementation = _agreement_test_impl,
    attrs = {"report": attr.label(allow_single_file = True, mandatory = True)},
    test = True,
)

def agreement_report(name, source, members, copts = [], **kwargs):
    """Compares the references of `members` in the unit `source` with those of each file alone.

    Args:
      name: name of the report.
      source: the file that includes all of `members`.
      members: paths of C++ files.
      copts: compiler options of the unit; optimization is turned off.
      **kwargs: passed to both cc_library targets (local_defines, deps).
    """
    kwargs = dict(
        kwargs,
        # Put each function in its own section, and emit a relocation for each call.
        copts = copts + ["-O0", "-ffunction-sections", "-fdata-sections", "-U_FORTIFY_SOURCE"],
        tags = ["manual"],
        visibility = ["//visibility:private"],
    )
    cc_library(name = name + ".together", srcs = [source], textual_hdrs = members, **kwargs)
    cc_library(name = name + ".apart", srcs = members, **kwargs)
    _agreement(
        name = name,
        apart = name + ".apart",
        tags = ["manual"],
        together = name + ".together",
    )

def agreement_test(name, **kwargs):
    """Tests that files mean the same when they are compiled as a unit. See agreement_report."""
    agreement_report(name = name + ".report", **kwargs)
    _agreement_test(
        name = name,
        size = "small",
        report = name + ".report",
    )
