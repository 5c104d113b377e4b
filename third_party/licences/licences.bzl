# SPDX-License-Identifier: Apache-2.0
"""`licence_files`: one upstream project's licence texts, as package metadata of its targets."""

LicenceInfo = provider(
    doc = "The licence texts of a project.",
    fields = {
        "files": "Tuple of Files.",
        "project": "Name of the project, as in the bill of materials.",
    },
)

def _licence_files_impl(ctx):
    if not ctx.files.srcs:
        fail("%s: no licence text; name one in srcs" % ctx.label)
    return [
        DefaultInfo(files = depset(ctx.files.srcs)),
        LicenceInfo(files = tuple(ctx.files.srcs), project = ctx.attr.project),
    ]

licence_files = rule(
    doc = "The licence texts of `project`; for `package_metadata` and REPO.bazel.",
    implementation = _licence_files_impl,
    attrs = {
        "project": attr.string(mandatory = True),
        "srcs": attr.label_list(allow_files = True, mandatory = True),
    },
    provides = [LicenceInfo],
)
