# SPDX-License-Identifier: Apache-2.0
"""The module extension `torch`: `@torch`, and the three repositories that it can refer to.

`@torch_release` is the pinned wheel, patched. `@torch_cuda` is the same release's wheel for CUDA,
patched by the same series. `@torch_source` is a release compiled from source. The flags
//third_party/torch:release and :variant select which of them a build uses and fetches.
"""

load("//third_party/torch/source:source.bzl", "torch_source_repository")
load(":hub.bzl", "torch_hub_repository")
load(":repository.bzl", "torch_repository", "torch_wheel_repository")

_PIN = Label("//third_party/torch:pin.json")
_CUDA_PIN = Label("//third_party/torch/cuda:pin.json")
_SOURCE_PIN = Label("//third_party/torch/source:pin.json")
_LOCK = Label("//third_party/pypi:lock.json")

def _key(requirement):
    """Return the lock's key of the package that a requirement line names."""
    for i, letter in enumerate(requirement.elems()):
        if not letter.isalnum() and letter not in "-_.":
            requirement = requirement[:i]
            break
    return requirement.lower().replace("-", "_").replace(".", "_")

def _torch_impl(mctx):
    pin = json.decode(mctx.read(_PIN))
    cuda = json.decode(mctx.read(_CUDA_PIN))
    requires = json.decode(mctx.read(_LOCK))["torch_requires"]
    torch_wheel_repository(
        name = "torch_wheel",
        extra_index = pin["wheel"]["extra_index"],
        filename = pin["wheel"]["filename"],
        sha256 = pin["wheel"]["sha256"],
        source = "third_party/torch/pin.json",
        version = pin["version"],
    )
    torch_wheel_repository(
        name = "torch_cuda_wheel",
        filename = cuda["wheel"]["filename"],
        sha256 = cuda["wheel"]["sha256"],
        source = "third_party/torch/cuda/pin.json",
        version = cuda["wheel"]["version"],
    )
    torch_hub_repository(name = "torch")
    torch_repository(
        name = "torch_release",
        filename = pin["wheel"]["filename"],
        pin = _PIN,
        requires = requires,
        tag = pin["tag"],
        version = pin["version"],
        wheel = "torch_wheel",
    )
    torch_repository(
        name = "torch_cuda",
        filename = cuda["wheel"]["filename"],
        kernels = True,
        pin = _CUDA_PIN,
        requires = requires + [_key(line) for line in cuda["requires"]],
        tag = cuda["tag"],
        version = cuda["version"],
        wheel = "torch_cuda_wheel",
        wheel_only = True,
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
