# SPDX-License-Identifier: Apache-2.0
"""`torch_site`: the Python half of a release, with the modules that its generators write."""

def _torch_site_impl(ctx):
    site = ctx.actions.declare_directory(ctx.label.name)
    commands = ["set -e", 'cp -RL "$1/." "$2"', 'chmod -R u+w "$2"']
    generated = ctx.file.generated
    for path in ctx.attr.generated_modules:
        commands.append('mkdir -p "$(dirname "$2/{0}")" && cp "$3/{0}" "$2/{0}"'.format(path))
    ctx.actions.run_shell(
        command = "\n".join(commands),
        arguments = [ctx.file.site.path, site.path, generated.path],
        inputs = [ctx.file.site, generated],
        outputs = [site],
        mnemonic = "TorchSite",
        progress_message = "Laying out torch's Python sources",
    )
    return [DefaultInfo(files = depset([site]))]

torch_site = rule(
    implementation = _torch_site_impl,
    attrs = {
        "generated": attr.label(
            allow_single_file = True,
            doc = "The directory of what a generator wrote, as a root of imports.",
            mandatory = True,
        ),
        "generated_modules": attr.string_list(doc = "Those of its files that belong to the site."),
        "site": attr.label(allow_single_file = True, mandatory = True),
    },
)
