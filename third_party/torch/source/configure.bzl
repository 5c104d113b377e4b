# SPDX-License-Identifier: Apache-2.0
"""`configured_header`: what CMake's configure_file makes of a template, from values that are data."""

def _configured_header_impl(ctx):
    # CMake's two forms of a value and its form of a condition. A condition that is not named is off.
    substitutions = {}
    for name, value in ctx.attr.values.items():
        substitutions["@%s@" % name] = value
        substitutions["${%s}" % name] = value
    for name in ctx.attr.on:
        # The end of the line belongs to it: names begin with each other.
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
        "on": attr.string_list(doc = "Conditions that hold."),
        "out": attr.output(mandatory = True),
        "template": attr.label(allow_single_file = True, mandatory = True),
        "values": attr.string_dict(),
    },
)
