# SPDX-License-Identifier: Apache-2.0
"""`@torch`: the names that everybody uses, for the release that the build is set to.

Nothing else is in it, so that a release which is not chosen is not fetched.
"""

# Name -> the target in the repository of a wheel, and in that of a source tree.
_TARGETS = {
    "SOURCE_INFO.json": ("SOURCE_INFO.json", "SOURCE_INFO.json"),
    "cc": ("cc", "cc"),
    "torch": ("torch", "wheel"),
}

_ALIAS = """
alias(
    name = "{name}",
    actual = select({{
        "{condition}": "{source}",
        "//conditions:default": "{release}",
    }}),
    visibility = ["//visibility:public"],
)
"""

def _torch_hub_impl(rctx):
    rctx.file("BUILD.bazel", "".join([
        _ALIAS.format(
            name = name,
            condition = Label("//third_party/torch:from_source"),
            source = Label("@torch_source//:" + source),
            release = Label("@torch_release//:" + release),
        )
        for name, (release, source) in _TARGETS.items()
    ]))

torch_hub_repository = repository_rule(
    implementation = _torch_hub_impl,
    doc = "Aliases to the chosen release.",
)
