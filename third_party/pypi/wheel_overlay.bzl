# SPDX-License-Identifier: Apache-2.0
"""Wheels with files that this build compiles, in place of the published ones; see README.md."""

WheelOverlayInfo = provider(
    doc = "Changes to the files of an unpacked wheel.",
    fields = {
        "drop": "Paths in the wheel of files and directories to leave out.",
        "files": "Path in the wheel -> file to add.",
    },
)

def _wheel_overlay_impl(ctx):
    files = {}
    for target, path in ctx.attr.files.items():
        sources = target[DefaultInfo].files.to_list()
        if len(sources) != 1:
            fail("%s: %s has %d files. Name one file for %s" % (ctx.label, target.label, len(sources), path))
        files[path] = sources[0]
    return [WheelOverlayInfo(drop = ctx.attr.drop, files = files)]

wheel_overlay = rule(
    doc = "Changes to a wheel, for `overlay` in annotations.json.",
    implementation = _wheel_overlay_impl,
    attrs = {
        "drop": attr.string_list(
            doc = "Paths in the wheel to leave out. The build fails if the wheel lacks one of them.",
        ),
        "files": attr.label_keyed_string_dict(allow_files = True, doc = "File -> path in the wheel."),
    },
)

def _overlaid_site_impl(ctx):
    overlay = ctx.attr.overlay[WheelOverlayInfo]
    site = ctx.file.site
    output = ctx.actions.declare_directory(ctx.label.name)
    commands = ["set -eu", 'cp -RL "$1/." "$2"', 'cd "$2"']
    commands += ["rm -r '%s'" % path for path in overlay.drop]
    commands.append('cd "$OLDPWD"')
    for path, file in overlay.files.items():
        commands.append("mkdir -p \"$(dirname \"$2/%s\")\" && cp -L '%s' \"$2/%s\"" % (path, file.path, path))
    ctx.actions.run_shell(
        command = "\n".join(commands),
        arguments = [site.path, output.path],
        inputs = [site] + overlay.files.values(),
        outputs = [output],
        mnemonic = "OverlaidSite",
        progress_message = "Adding compiled files to the wheel %{label}",
    )
    return [DefaultInfo(files = depset([output]))]

overlaid_site = rule(
    doc = "A copy of an unpacked wheel, with the changes of its overlay.",
    implementation = _overlaid_site_impl,
    attrs = {
        "overlay": attr.label(mandatory = True, providers = [WheelOverlayInfo]),
        "site": attr.label(allow_single_file = True, mandatory = True),
    },
)
