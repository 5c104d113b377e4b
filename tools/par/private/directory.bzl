# SPDX-License-Identifier: Apache-2.0
"""file_directory: files in one tree artifact, so that Bazel notices an edit of any of them."""

def _file_directory_impl(ctx):
    output = ctx.actions.declare_directory(ctx.label.name)

    # In an external repository, a file's short path starts with `../REPOSITORY/`.
    repository = ctx.label.workspace_name
    package = ("../%s/" % repository if repository else "") + ctx.label.package + "/"
    commands = ["set -eu", "out=$1"]
    for file in ctx.files.srcs:
        below = file.short_path.removeprefix(package)
        if below == file.short_path:
            below = file.basename
        commands.append('mkdir -p "$out/$(dirname %s)" && cp -L %s "$out/%s"' % (below, file.path, below))
    ctx.actions.run_shell(
        command = "\n".join(commands),
        arguments = [output.path],
        inputs = ctx.files.srcs,
        outputs = [output],
        mnemonic = "FileDirectory",
    )
    return [DefaultInfo(files = depset([output]))]

file_directory = rule(
    doc = "Copies srcs to a tree artifact, at their paths below this package.",
    implementation = _file_directory_impl,
    attrs = {"srcs": attr.label_list(allow_files = True, mandatory = True)},
)
