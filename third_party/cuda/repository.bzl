# SPDX-License-Identifier: Apache-2.0
"""The module extension `cuda`: the parts of CUDA that clang needs, from NVIDIA's wheels, as `@cuda`.

The wheels are pinned in pin.json. They are not in a lock of `@pypi`, because no program imports them,
and a workspace may have other versions of them for its torch. `toolkit` has the layout of an installed
CUDA, which clang's --cuda-path expects.
"""

load("//third_party/fetch:licences.bzl", "state_licences")
load("//third_party/pypi:fetch_wheel.bzl", "fetch_wheel")

_PIN = Label("//third_party/cuda:pin.json")
_BUILD_FILE = Label("//third_party/cuda:cuda.BUILD")

# Maps a path in `toolkit` to (wheel, path in the wheel).
_FILES = {
    "bin/ptxas": ("nvcc", "nvidia/cuda_nvcc/bin/ptxas"),
    "lib64/libcudart_static.a": ("runtime", "nvidia/cuda_runtime/lib/libcudart_static.a"),
    "lib64/libnvfatbin.so.12": ("nvfatbin", "nvidia/nvfatbin/lib/libnvfatbin.so.12"),
    "nvvm/libdevice/libdevice.10.bc": ("nvcc", "nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc"),
}

# Maps a wheel to its folder of headers. The contents of all these folders are merged into
# `toolkit/include`.
_HEADERS = {
    "cccl": "nvidia/cuda_cccl/include",
    "nvcc": "nvidia/cuda_nvcc/include",
    "nvfatbin": "nvidia/nvfatbin/include",
    "runtime": "nvidia/cuda_runtime/include",
}

# Folders to delete: libnvvm, NVIDIA's compiler library (62 MB). clang replaces it.
_UNUSED = ["nvcc/nvidia/cuda_nvcc/nvvm/lib64"]

_LICENCE = "runtime/nvidia_cuda_runtime_cu12-{}.dist-info/licenses/License.txt"

def _link(rctx, target, name):
    if not target.exists:
        fail("{}: the wheel has no {}. Correct the table in third_party/cuda/repository.bzl.".format(
            _PIN,
            target,
        ))
    rctx.symlink(target, "toolkit/" + name)

def _cuda_repository_impl(rctx):
    # Resolve the label before the first download, because Bazel may restart the rule at this point.
    build_file = rctx.path(_BUILD_FILE)
    pin = json.decode(rctx.read(_PIN))
    for name, wheel in pin["wheels"].items():
        fetch_wheel(
            rctx,
            requirement = "{}=={}".format(wheel["distribution"], wheel["version"]),
            filename = wheel["filename"],
            sha256 = wheel["sha256"],
            site = name,
            source = "third_party/cuda/pin.json",
        )
    for folder in _UNUSED:
        rctx.delete(folder)
    for path, (wheel, source) in _FILES.items():
        _link(rctx, rctx.path(wheel + "/" + source), path)
    for wheel, folder in _HEADERS.items():
        for entry in rctx.path(wheel + "/" + folder).readdir():
            if entry.basename != "__init__.py":
                _link(rctx, entry, "include/" + entry.basename)
    licence = _LICENCE.format(pin["wheels"]["runtime"]["version"])
    state_licences(rctx, "cuda", {"NVIDIA_EULA.txt": rctx.read(licence)})
    rctx.symlink(build_file, "BUILD.bazel")

_cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    doc = "NVIDIA's headers, assembler and static runtime, fetched by hash.",
)

def _cuda_impl(mctx):
    _cuda_repository(name = "cuda")
    return mctx.extension_metadata(reproducible = True)

cuda = module_extension(
    implementation = _cuda_impl,
    doc = "Makes the pinned CUDA available as `@cuda`. It is fetched when a target needs it.",
)
