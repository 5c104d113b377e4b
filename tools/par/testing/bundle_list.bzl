# SPDX-License-Identifier: Apache-2.0
"""bundle_list: the wheels that a program with these libraries contains, for tests."""

load("//tools/par:par.bzl", "ParInfo")
load("//tools/par/private:providers.bzl", "collect_bundles")

def _bundle_list_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name + ".txt")
    bundles = depset(transitive = [library[ParInfo].bundles for library in ctx.attr.libraries])
    ctx.actions.write(output, "".join([
        "%s\t%s\t%s\n" % (bundle.name, bundle.archive.owner.workspace_name, bundle.toolkit)
        for bundle in bundles.to_list()
    ]))
    return [DefaultInfo(files = depset([output]), runfiles = ctx.runfiles([output]))]

bundle_list = rule(
    doc = "A file with a line for each wheel of `libraries`: name, repository and toolkit.",
    implementation = _bundle_list_impl,
    attrs = {
        "libraries": attr.label_list(
            aspects = [collect_bundles],
            doc = "py_library and wheel targets.",
            mandatory = True,
        ),
    },
)
