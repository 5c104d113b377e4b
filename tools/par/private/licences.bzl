# SPDX-License-Identifier: Apache-2.0
"""licence_directory: the licence texts of all projects that a launcher is linked from."""

load("//third_party/licences:licences.bzl", "LicenceInfo")

_CollectedInfo = provider(
    doc = "The licences that the aspect has collected.",
    fields = {"licences": "Depset of LicenceInfo."},
)

# Attributes whose targets become part of a linked program. Other attributes refer to build tools.
_LINKED = [
    "actual",
    "deps",
    "extensions",
    "implementation_deps",
    "libraries",
    "library",
    "sources",
    "srcs",
    "static_library",
]

def _targets(value):
    if type(value) == "Target":
        return [value]
    return [item for item in value if type(item) == "Target"] if type(value) in ("list", "dict") else []

def _collect_impl(_target, ctx):
    own = [
        metadata[LicenceInfo]
        for name in ["applicable_licenses", "package_metadata"]
        for metadata in _targets(getattr(ctx.rule.attr, name, None))
        if LicenceInfo in metadata
    ]
    return [_CollectedInfo(licences = depset(own, transitive = [
        target[_CollectedInfo].licences
        for name in _LINKED
        for target in _targets(getattr(ctx.rule.attr, name, None))
        if _CollectedInfo in target
    ]))]

_collect = aspect(
    implementation = _collect_impl,
    apply_to_generating_rules = True,
    attr_aspects = _LINKED,
)

def _licence_directory_impl(ctx):
    infos = depset(
        [runtime[LicenceInfo] for runtime in ctx.attr.runtime],
        transitive = [target[_CollectedInfo].licences for target in ctx.attr.linked],
    ).to_list()
    output = ctx.actions.declare_directory(ctx.label.name)
    commands = ["set -eu", "out=$1"]
    for info in infos:
        for file in info.files:
            commands.append('mkdir -p "$out/{0}" && cp -L {1} "$out/{0}/{2}"'.format(
                info.project,
                file.path,
                file.basename,
            ))
    ctx.actions.run_shell(
        command = "\n".join(commands),
        arguments = [output.path],
        inputs = [file for info in infos for file in info.files],
        outputs = [output],
        mnemonic = "Licences",
        progress_message = "Gathering licence texts for %{label}",
    )
    return [DefaultInfo(files = depset([output]))]

licence_directory = rule(
    doc = "NAME/PROJECT/FILE for each project that one of `linked` is linked from, and for `runtime`.",
    implementation = _licence_directory_impl,
    attrs = {
        "linked": attr.label_list(aspects = [_collect], mandatory = True),
        "runtime": attr.label_list(
            doc = "Licences of the runtime libraries that the compiler adds.",
            providers = [LicenceInfo],
        ),
    },
)
