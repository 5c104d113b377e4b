# SPDX-License-Identifier: Apache-2.0
"""`torch_codegen`: runs upstream's code generators with our interpreter.

The 7,000 headers are a single directory, so a compilation has a single input for them. Sources are
separate files, so each is compiled by its own action.
"""

load("@rules_python//python:defs.bzl", "PyInfo")

def _torch_codegen_impl(ctx):
    headers = ctx.actions.declare_directory(ctx.attr.headers)
    below = ctx.attr.sources + "/"
    sources = {file.short_path.partition(below)[2]: file for file in ctx.outputs.outs}
    python = ctx.file._python
    root = ctx.file.root.dirname
    imports = [dep[DefaultInfo].files.to_list()[0] for dep in ctx.attr.deps]

    arguments = ctx.actions.args()
    arguments.add_all(["-BsP", ctx.file._script])
    arguments.add(root, format = "--root=%s")
    arguments.add_all(imports, format_each = "--import=%s", expand_directories = False)
    arguments.add_all([headers], format_each = "--headers=%s", expand_directories = False)
    for path, file in sources.items():
        arguments.add(file, format = "--source=" + path + "=%s")
    arguments.add(ctx.attr.generator)
    ctx.actions.run_shell(
        command = 'python=$1; shift; exec "$python/bin/python3.11" "$@"',
        arguments = [python.path, arguments],
        inputs = depset([ctx.file._script, ctx.file.root, python] + imports + ctx.files.srcs),
        outputs = [headers] + sources.values(),
        mnemonic = "TorchCodegen",
        progress_message = "Generating torch's %s" % ctx.attr.generator,
        use_default_shell_env = True,
    )
    return [
        DefaultInfo(files = depset([headers] + sources.values())),
        OutputGroupInfo(headers = depset([headers]), **{
            "sources": depset(sources.values()),
        }),
    ]

torch_codegen = rule(
    implementation = _torch_codegen_impl,
    attrs = {
        "deps": attr.label_list(doc = "Wheels that the generator imports.", providers = [PyInfo]),
        "generator": attr.string(mandatory = True, values = ["aten", "autograd"]),
        "headers": attr.string(mandatory = True, doc = "The headers' directory, an include root."),
        "outs": attr.output_list(mandatory = True, doc = "Sources, each below `sources`."),
        "root": attr.label(
            allow_single_file = True,
            doc = "A file at the root of the source tree.",
            mandatory = True,
        ),
        "sources": attr.string(mandatory = True, doc = "The directory of sources."),
        "srcs": attr.label_list(allow_files = True, mandatory = True),
        "_python": attr.label(
            default = Label("//third_party/python:python3"),
            allow_single_file = True,
            # Use the interpreter that programs contain, so that CPython is built only once.
            cfg = "target",
        ),
        "_script": attr.label(
            default = Label("//third_party/torch/source:generate.py"),
            allow_single_file = True,
        ),
    },
)
