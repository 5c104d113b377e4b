# SPDX-License-Identifier: Apache-2.0
"""`configured_header`: expands a template as CMake's configure_file does."""

def _configured_header_impl(ctx):
    # A CMake template has two forms of placeholder for a value and one for a condition. A condition
    # that is not in `on` is false.
    substitutions = {}
    for name, value in ctx.attr.values.items():
        substitutions["@%s@" % name] = value
        substitutions["${%s}" % name] = value
    for name in ctx.attr.on:
        # Match the end of the line, because a name may be a prefix of another name.
        substitutions["#cmakedefine %s\n" % name] = "#define %s\n" % name
    substitutions["#cmakedefine "] = "// off: "
    ctx.actions.expand_template(
        template = ctx.file.template,
        output = ctx.outputs.out,
        substitutions = substitutions,
    )
    return [DefaultInfo(files = depset([ctx.outputs.out]))]

configured_header = rule(
    implementation = _configured_header_impl,
    attrs = {
        "on": attr.string_list(doc = "Conditions that are true."),
        "out": attr.output(mandatory = True),
        "template": attr.label(allow_single_file = True, mandatory = True),
        "values": attr.string_dict(),
    },
)
