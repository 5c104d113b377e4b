# SPDX-License-Identifier: Apache-2.0
"""`@torch`: aliases to the targets of the selected release.

It contains nothing else, so the other releases are not fetched.
"""

# Maps the name of a target in @torch to (target in the repositories of wheels, target in
# @torch_source).
_TARGETS = {
    "SOURCE_INFO.json": ("SOURCE_INFO.json", "SOURCE_INFO.json"),
    "cc": ("cc", "cc"),
    "torch": ("torch", "wheel"),
}

_ALIAS = """
alias(
    name = "{name}",
    actual = select({{
        "{from_source}": "{source}",
        "{cuda_from_source}": "{absent}",
        "{with_cuda}": "{cuda}",
        "{is_newer}": "{newer}",
        "//conditions:default": "{release}",
    }}),
    visibility = ["//visibility:public"],
)
"""

def _torch_hub_impl(rctx):
    rctx.file("BUILD.bazel", "".join([
        _ALIAS.format(
            name = name,
            from_source = Label("//third_party/torch:from_source"),
            cuda_from_source = Label("//third_party/torch:cuda_from_source"),
            absent = Label("//third_party/torch:no_cuda_from_source"),
            with_cuda = Label("//third_party/torch:with_cuda"),
            cuda = Label("@torch_cuda//:" + release),
            is_newer = Label("//third_party/torch:is_newer"),
            newer = Label("@torch_newer//:" + release),
            source = Label("@torch_source//:" + source),
            release = Label("@torch_release//:" + release),
        )
        for name, (release, source) in _TARGETS.items()
    ]))

torch_hub_repository = repository_rule(
    implementation = _torch_hub_impl,
    doc = "Aliases to the selected release.",
)
