# SPDX-License-Identifier: Apache-2.0
"""linked_layout: an OCI layout whose blobs are links to other files, as rules_oci writes it."""

_SCRIPT = """\
set -eu
mkdir -p "$2/blobs/sha256"
cp "$1/oci-layout" "$1/index.json" "$2"
for blob in "$1"/blobs/sha256/*; do
    ln -s "../../../$3/blobs/sha256/${blob##*/}" "$2/blobs/sha256/"
done
"""

def _linked_layout_impl(ctx):
    output = ctx.actions.declare_directory(ctx.label.name)

    # The links point to a copy in this package, because they must be relative.
    copy = ctx.actions.declare_directory(ctx.label.name + ".copy")
    ctx.actions.run_shell(
        command = "cp -rL \"$1/.\" \"$2\"",
        arguments = [ctx.file.layout.path, copy.path],
        inputs = [ctx.file.layout],
        outputs = [copy],
    )
    ctx.actions.run_shell(
        command = _SCRIPT,
        arguments = [copy.path, output.path, copy.basename],
        inputs = [copy],
        outputs = [output],
    )
    return [DefaultInfo(files = depset([output]), runfiles = ctx.runfiles([copy]))]

linked_layout = rule(
    implementation = _linked_layout_impl,
    attrs = {"layout": attr.label(allow_single_file = True, mandatory = True)},
)
