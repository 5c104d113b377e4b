# SPDX-License-Identifier: Apache-2.0
"""The module extension `torch`: `@torch`, and the four repositories that it can refer to.

`@torch_release` is the pinned wheel, patched. `@torch_cuda` is the same release's wheel for CUDA,
patched by the same series. `@torch_newer` is a newer release's wheel, with its own series and its
own lock. `@torch_source` is a release compiled from source. The flags
//third_party/torch:release and :variant select which of them a build uses and fetches.
"""

load("//third_party/pypi:merge.bzl", "merge_annotations")
load("//third_party/pypi:repositories.bzl", "locked_wheel")
load("//third_party/torch/source:source.bzl", "torch_source_repository")
load(":hub.bzl", "torch_hub_repository")
load(":repository.bzl", "torch_repository", "torch_wheel_repository")

_PIN = Label("//third_party/torch:pin.json")
_CUDA_PIN = Label("//third_party/torch/cuda:pin.json")
_NEWER_PIN = Label("//third_party/torch/newer:pin.json")
_NEWER_LOCK = Label("//third_party/torch/newer:lock.json")
_NEWER_ANNOTATIONS = Label("//third_party/torch/newer:annotations.json")
_SOURCE_PIN = Label("//third_party/torch/source:pin.json")
_LOCK = Label("//third_party/pypi:lock.json")
_ANNOTATIONS = Label("//third_party/pypi:annotations.json")

def _key(requirement):
    """Return the lock's key of the package that a requirement line names."""
    for i, letter in enumerate(requirement.elems()):
        if not letter.isalnum() and letter not in "-_.":
            requirement = requirement[:i]
            break
    return requirement.lower().replace("-", "_").replace(".", "_")

def _needs(requires, pin):
    """Return the lock keys in `requires` and those of the requirements that `pin` adds."""
    keys = {key: None for key in requires + [_key(line) for line in pin["requires"]]}
    return keys.keys()

def _cuda_wheel(name, pin, source):
    """Declare the repository of a CUDA wheel. `pin` is its decoded pin.json."""
    torch_wheel_repository(
        name = name,
        filename = pin["wheel"]["filename"],
        sha256 = pin["wheel"]["sha256"],
        source = source,
        version = pin["wheel"]["version"],
    )

def _newer_packages(mctx):
    """Declare the packages of the newer release's lock, and return {key: label}.

    They are not in `@pypi`, which has one version of each package, so only `@torch_newer` refers to
    them.
    """
    packages = json.decode(mctx.read(_NEWER_LOCK))["packages"]
    annotations, error = merge_annotations(
        {
            "third_party/pypi/annotations.json": (json.decode(mctx.read(_ANNOTATIONS)), False),
            "third_party/torch/newer/annotations.json": (
                json.decode(mctx.read(_NEWER_ANNOTATIONS)),
                True,
            ),
        },
        packages,
    )
    if error:
        fail(error)
    labels = {key: "@torch_newer_%s//:wheel" % key for key in packages}
    for key, package in packages.items():
        locked_wheel(
            name = "torch_newer_" + key,
            annotation = annotations.get(key, {}),
            package = dict(package, lock = "third_party/torch/newer/lock.json"),
            replaced = {
                each: labels.get(each, "@pypi//" + each)
                for each in package["requires"]
            },
        )
    return labels

def _torch_impl(mctx):
    pin = json.decode(mctx.read(_PIN))
    cuda = json.decode(mctx.read(_CUDA_PIN))
    newer = json.decode(mctx.read(_NEWER_PIN))
    requires = json.decode(mctx.read(_LOCK))["torch_requires"]
    torch_wheel_repository(
        name = "torch_wheel",
        extra_index = pin["wheel"]["extra_index"],
        filename = pin["wheel"]["filename"],
        sha256 = pin["wheel"]["sha256"],
        source = "third_party/torch/pin.json",
        version = pin["version"],
    )
    _cuda_wheel("torch_cuda_wheel", cuda, "third_party/torch/cuda/pin.json")
    _cuda_wheel("torch_newer_wheel", newer, "third_party/torch/newer/pin.json")
    labels = _newer_packages(mctx)
    torch_hub_repository(name = "torch")
    torch_repository(
        name = "torch_release",
        deps = ["@pypi//" + each for each in requires],
        filename = pin["wheel"]["filename"],
        pin = _PIN,
        tag = pin["tag"],
        version = pin["version"],
        wheel = "torch_wheel",
    )
    torch_repository(
        name = "torch_cuda",
        deps = ["@pypi//" + each for each in _needs(requires, cuda)],
        filename = cuda["wheel"]["filename"],
        kernels = True,
        pin = _CUDA_PIN,
        tag = cuda["tag"],
        version = cuda["version"],
        wheel = "torch_cuda_wheel",
        wheel_only = True,
    )
    torch_repository(
        name = "torch_newer",
        deps = [labels.get(each, "@pypi//" + each) for each in _needs(requires, newer)],
        filename = newer["wheel"]["filename"],
        kernels = True,
        pin = _NEWER_PIN,
        tag = newer["tag"],
        version = newer["version"],
        wheel = "torch_newer_wheel",
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
