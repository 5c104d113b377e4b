# SPDX-License-Identifier: Apache-2.0
"""The rule `docs_site`: a directory of HTML from Markdown pages and pictures."""

def _docs_site_impl(ctx):
    output = ctx.actions.declare_directory(ctx.label.name)
    arguments = ctx.actions.args()
    arguments.add("--config", ctx.file.config)
    arguments.add_all("--output", [output], expand_directories = False)
    arguments.add_all(ctx.files.srcs)
    ctx.actions.run(
        executable = ctx.executable._builder,
        arguments = [arguments],
        inputs = ctx.files.srcs + [ctx.file.config],
        outputs = [output],
        mnemonic = "DocsSite",
        progress_message = "Building the site %{label}",
    )
    return [DefaultInfo(
        files = depset([output]),
        runfiles = ctx.runfiles([output]),
    )]

docs_site = rule(
    implementation = _docs_site_impl,
    doc = "Builds a site with MkDocs; a dead link or anchor between its pages is an error.",
    attrs = {
        "config": attr.label(allow_single_file = [".yml"], mandatory = True),
        "srcs": attr.label_list(allow_files = [".md", ".png"], mandatory = True),
        "_builder": attr.label(
            default = Label("//docs:build_site.par"),
            executable = True,
            # With the target configuration, the builder uses the same interpreter as all PARs, so
            # CPython is built only once.
            cfg = "target",
        ),
    },
)
