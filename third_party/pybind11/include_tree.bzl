# SPDX-License-Identifier: Apache-2.0
"""`include_tree`: a wheel's headers as a directory in this package, to use in `includes`."""

def _include_tree_impl(ctx):
    tree = ctx.actions.declare_directory(ctx.attr.name)
    marker = "/{}/".format(ctx.attr.below)
    commands = ["set -e"]
    for header in ctx.files.headers:
        _, separator, path = header.path.rpartition(marker)
        if separator:
            folder = "/".join([tree.path] + path.split("/")[:-1])
            commands.append("mkdir -p '{}' && cp '{}' '{}'".format(folder, header.path, folder))
    if len(commands) == 1:
        fail("{}: none of its headers is below '{}'. Correct `below`".format(ctx.label, ctx.attr.below))
    ctx.actions.run_shell(
        command = "\n".join(commands),
        inputs = ctx.files.headers,
        outputs = [tree],
        mnemonic = "IncludeTree",
        progress_message = "Copying the headers %{label}",
    )
    return [DefaultInfo(files = depset([tree]))]

include_tree = rule(
    implementation = _include_tree_impl,
    attrs = {
        "below": attr.string(mandatory = True, doc = "The directory in the wheel that is the include path."),
        "headers": attr.label(mandatory = True, doc = "The wheel's `:headers`."),
    },
)
