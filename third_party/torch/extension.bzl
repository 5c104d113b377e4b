# SPDX-License-Identifier: Apache-2.0
"""The module extension `torch`: `@torch`, and the two repositories that it can refer to.

`@torch_release` is the pinned wheel, patched. `@torch_source` is a release compiled from source.
The flag //third_party/torch:release selects which of them a build fetches.
"""

load("//third_party/torch/source:source.bzl", "torch_source_repository")
load(":hub.bzl", "torch_hub_repository")
load(":repository.bzl", "torch_repository", "torch_wheel_repository")

_PIN = Label("//third_party/torch:pin.json")
_SOURCE_PIN = Label("//third_party/torch/source:pin.json")
_LOCK = Label("//third_party/pypi:lock.json")

def _torch_impl(mctx):
    pin = json.decode(mctx.read(_PIN))
    torch_wheel_repository(
        name = "torch_wheel",
        extra_index = pin["wheel"]["extra_index"],
        filename = pin["wheel"]["filename"],
        sha256 = pin["wheel"]["sha256"],
        version = pin["version"],
    )
    torch_hub_repository(name = "torch")
    torch_repository(
        name = "torch_release",
        filename = pin["wheel"]["filename"],
        requires = json.decode(mctx.read(_LOCK))["torch_requires"],
        tag = pin["tag"],
        version = pin["version"],
    )
    torch_source_repository(
        name = "torch_source",
        tag = json.decode(mctx.read(_SOURCE_PIN))["tag"],
    )
    return mctx.extension_metadata(reproducible = True)

torch = module_extension(
    implementation = _torch_impl,
    doc = "Makes the pinned, patched torch available as `@torch`.",
)
