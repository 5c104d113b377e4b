# SPDX-License-Identifier: Apache-2.0
"""`torch_site`: a release's Python sources, with the files that the build adds.

The added files are generated modules, and headers for code that is compiled at run time.
"""

def _include_path(file, roots):
    """Return the path by which a header is included: relative to a root in its repository."""
    path = file.short_path
    if path.startswith("../"):
        path = path.split("/", 2)[2]
    for root in roots:
        if path.startswith(root + "/"):
            return path[len(root) + 1:]
    return path

def _torch_site_impl(ctx):
    site = ctx.actions.declare_directory(ctx.label.name)
    headers = ctx.actions.declare_file(ctx.label.name + ".headers")
    ctx.actions.write(headers, "".join([
        "%s %s\n" % (file.path, _include_path(file, ctx.attr.include_roots))
        for file in ctx.files.headers
    ]))
    commands = ["set -e", 'cp -RL "$1/." "$2"', 'chmod -R u+w "$2"']
    generated = ctx.file.generated
    for path in ctx.attr.generated_modules:
        commands.append('mkdir -p "$(dirname "$2/{0}")" && cp "$3/{0}" "$2/{0}"'.format(path))
    commands += [
        "while read -r file path; do",
        '  to="$2/torch/include/$path"',
        '  mkdir -p "${to%/*}" && cp -L "$file" "$to"',
        'done <"$4"',
    ]
    ctx.actions.run_shell(
        command = "\n".join(commands),
        arguments = [ctx.file.site.path, site.path, generated.path, headers.path],
        inputs = ctx.files.headers + [ctx.file.site, generated, headers],
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
            doc = "The directory of generated files, an import root.",
            mandatory = True,
        ),
        "generated_modules": attr.string_list(doc = "The files of `generated` to add."),
        "headers": attr.label_list(allow_files = True, doc = "Headers for torch/include."),
        "include_roots": attr.string_list(
            doc = "Directories in repositories that are not part of a header's name.",
        ),
        "site": attr.label(allow_single_file = True, mandatory = True),
    },
)
