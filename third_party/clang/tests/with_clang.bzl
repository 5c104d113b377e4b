# SPDX-License-Identifier: Apache-2.0
"""`with_clang`: targets built by the pinned toolchain, even if the build uses another one."""

_TOOLCHAINS = "//command_line_option:extra_toolchains"

def _transition_impl(settings, _attr):
    return {_TOOLCHAINS: settings[_TOOLCHAINS] + [str(Label("//third_party/clang:toolchain"))]}

_with_clang = transition(
    implementation = _transition_impl,
    inputs = [_TOOLCHAINS],
    outputs = [_TOOLCHAINS],
)

def _with_clang_impl(ctx):
    targets = [target[DefaultInfo] for target in ctx.attr.targets]
    return [DefaultInfo(
        files = depset(transitive = [target.files for target in targets]),
        runfiles = ctx.runfiles().merge_all([target.default_runfiles for target in targets]),
    )]

with_clang = rule(
    doc = "The files and runfiles of `targets`, in order.",
    implementation = _with_clang_impl,
    attrs = {
        "targets": attr.label_list(cfg = _with_clang, mandatory = True),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
)
