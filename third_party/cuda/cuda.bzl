# SPDX-License-Identifier: Apache-2.0
"""Public rules: CUDA kernels, compiled by the pinned clang, in libraries and Python extensions."""

load("@rules_cc//cc:defs.bzl", "cc_binary")
load("@rules_python//python:defs.bzl", "py_library")
load(":cuda_library.bzl", _cuda_library = "cuda_library")

_ONLY_ON = [
    "@platforms//cpu:x86_64",
    "@platforms//os:linux",
]

# The dependencies of all kernels. Pass them as `deps`, from which PARs collect licences.
_RUNTIME = [
    Label("@cuda//:cudart"),
    Label("//third_party/cuda:launch"),
]

def cuda_library(name, deps = [], target_compatible_with = [], **kwargs):
    """A C++ library with CUDA kernels, for cc_binary, cc_library and par_cc_extension.

    Args:
      name: name of the target. Its output groups `ptx`, `cubins` and `fatbins` have the device code.
      deps: cc_library and cuda_library targets.
      target_compatible_with: further constraints. The wheels are for Linux on x86-64.
      **kwargs: srcs (`.cu` files), archs, hdrs, copts, and common attributes; see
        cuda_library.bzl.
    """
    _cuda_library(
        name = name,
        deps = deps + _RUNTIME,
        target_compatible_with = _ONLY_ON + target_compatible_with,
        **kwargs
    )

def par_cuda_extension(
        name,
        srcs,
        module,
        archs,
        hdrs = [],
        deps = [],
        kernel_deps = [],
        copts = [],
        target_compatible_with = [],
        visibility = None,
        **kwargs):
    """A Python extension module with CUDA kernels, a dependency of par_binary and py_library.

    Write kernels and their launches in `.cu` files, and code that uses torch's API in the others:
    torch's headers are slow to compile for each architecture, and some do not compile for a GPU.

    Args:
      name: name of the target. `NAME.kernels` is the cuda_library of the `.cu` files.
      srcs: `.cu`, C and C++ files. One of them defines the module's PyInit function.
      module: dotted module name, in this package or below: `examples._kernel`.
      archs: GPUs to compile for, such as ["sm_80", "sm_90"].
      hdrs: headers of the srcs.
      deps: cc_library targets of the C and C++ files, such as `@torch//:cc`.
      kernel_deps: cc_library targets of the `.cu` files.
      copts: options for all files.
      target_compatible_with: further constraints.
      visibility: visibility of the target.
      **kwargs: tags, testonly.
    """
    package = native.package_name()
    path = module.replace(".", "/")
    if package and not path.startswith(package + "/"):
        fail("%s: module '%s' is outside the package %s. Name it %s.%s" % (
            name,
            module,
            package,
            package.replace("/", "."),
            module.split(".")[-1],
        ))
    output = path.removeprefix(package + "/") + ".so"
    kernels = [src for src in srcs if src.endswith(".cu")]
    if not kernels:
        fail("%s: no .cu file in srcs. Without kernels, use par_cc_extension" % name)
    kwargs = dict(kwargs, target_compatible_with = target_compatible_with + _ONLY_ON)
    private = ["//visibility:private"]
    _cuda_library(
        name = name + ".kernels",
        srcs = kernels,
        hdrs = hdrs,
        archs = archs,
        copts = copts,
        visibility = private,
        deps = kernel_deps + _RUNTIME,
        **kwargs
    )
    cc_binary(
        name = name + ".linked.so",
        srcs = [src for src in srcs if src not in kernels] + hdrs,
        copts = copts + ["-fvisibility=hidden"],
        linkshared = True,
        visibility = private,
        deps = deps + [
            name + ".kernels",
            Label("//third_party/python:headers"),
        ],
        **kwargs
    )

    # Use a copy of the library, because the original's runfiles would add torch's libraries a
    # second time.
    native.genrule(
        name = name + ".copied",
        srcs = [name + ".linked.so"],
        outs = [output],
        cmd = "cp $< $@",
        visibility = private,
        **kwargs
    )

    # Include NVIDIA's licence, which allows programs to contain the static CUDA runtime.
    licence = name + ".NVIDIA_EULA.txt"
    native.genrule(
        name = name + ".licence",
        srcs = [Label("@cuda//licences")],
        outs = [licence],
        cmd = "cp $< $@",
        visibility = private,
        **kwargs
    )
    py_library(
        name = name,
        data = [
            output,
            licence,
        ],
        visibility = visibility,
        **kwargs
    )
