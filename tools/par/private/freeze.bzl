# SPDX-License-Identifier: Apache-2.0
"""frozen_modules: a C file with the modules that are frozen into a launcher."""

def _frozen_modules_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name + ".c")
    interpreter = ctx.file._python.path + "/bin/python3.11"
    arguments = ctx.actions.args()
    arguments.add_all(["-I", "-S", "-B", ctx.file._freeze, output])
    for name, path in ctx.attr.stdlib_modules.items():
        arguments.add("%s=%s/%s" % (name, ctx.file._stdlib.path, path))
    for target, name in ctx.attr.modules.items():
        arguments.add(target[DefaultInfo].files.to_list()[0], format = name + "=%s")
    ctx.actions.run_shell(
        # The interpreter is in a directory artifact, so it cannot be the action's executable.
        command = 'exec "%s" "$@"' % interpreter,
        arguments = [arguments],
        inputs = depset(
            [ctx.file._python, ctx.file._freeze, ctx.file._stdlib],
            transitive = [target[DefaultInfo].files for target in ctx.attr.modules],
        ),
        outputs = [output],
        mnemonic = "ParFreeze",
        progress_message = "Freezing the PAR's boot code",
        env = {"PYTHONHASHSEED": "0"},
    )
    return [DefaultInfo(files = depset([output]))]

frozen_modules = rule(
    implementation = _frozen_modules_impl,
    attrs = {
        "stdlib_modules": attr.string_dict(
            doc = "Module name (ending in a dot for a package) to path in the standard library.",
        ),
        "modules": attr.label_keyed_string_dict(
            doc = "Source file to module name.",
            allow_files = [".py"],
        ),
        "_freeze": attr.label(
            default = Label("//tools/par/compiler:freeze.py"),
            allow_single_file = True,
        ),
        "_python": attr.label(
            default = Label("//third_party/python:python3"),
            allow_single_file = True,
            cfg = "target",  # see COMPILER_ATTRS
        ),
        "_stdlib": attr.label(
            default = Label("//third_party/python:stdlib"),
            allow_single_file = True,
        ),
    },
)
