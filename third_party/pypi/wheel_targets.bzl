# SPDX-License-Identifier: Apache-2.0
"""The targets of an unpacked wheel, which are the same for every wheel."""

load("//tools/par:par.bzl", "par_wheel")
load(":wheel_overlay.bzl", "overlaid_site")

_SOURCES = ["*.py", "*.pyi"]
_NATIVES = ["*.so", "*.so.*"]
_HEADERS = ["*.h", "*.hpp", "*.cuh", "*.inc"]
_METADATA = "site/*.dist-info/*"
_LICENSES = [
    "site/*.dist-info/LICEN*",
    "site/*.dist-info/COPYING*",
    "site/*.dist-info/NOTICE*",
    "site/*.dist-info/AUTHORS*",
    "site/*.dist-info/licenses/**",
]

# The targets of each wheel in addition to `:wheel`. The hub repository (@pypi) has aliases with
# these names.
WHEEL_GROUPS = ["sources", "data", "natives", "headers", "licenses", "metadata"]

def wheel_targets(
        *,
        distribution,
        version,
        deps,
        zip_safe,
        files = {},
        cold = ["."],
        drop = ["*/tests"],
        environment = {},
        info = None,
        kernels = False,
        overlay = None,
        toolkit = ""):
    """Declares `:wheel` and one filegroup for each kind of file under `site/`.

    Args:
      distribution: the name in the wheel's METADATA.
      version: the wheel's version.
      deps: labels of other wheels' `:wheel`.
      zip_safe: False if the package opens files next to its modules.
      files: target name -> path in the wheel.
      cold: directories whose code is stored compressed (see par_wheel).
      drop: directories to leave out of programs (see par_wheel).
      environment: variables for its native libraries (see par_wheel).
      info: a JSON file with the wheel's origin, for PAR_INFO.
      kernels: whether its libraries consist of kernels for GPUs (see par_wheel).
      overlay: a wheel_overlay with changes to its files, for programs only; see README.md.
      toolkit: the toolkit that it is a part of (see par_wheel).
    """
    if overlay:
        overlaid_site(
            name = "overlaid",
            overlay = overlay,
            site = "site",
            visibility = ["//visibility:private"],
        )
    par_wheel(
        name = "wheel",
        site = "overlaid" if overlay else "site",
        distribution = distribution,
        version = version,
        deps = deps,
        cold = cold,
        drop = drop,
        environment = environment,
        info = info,
        kernels = kernels or toolkit == "cuda",
        toolkit = toolkit,
        zip_safe = zip_safe,
        visibility = ["//visibility:public"],
    )
    kinds = {
        "sources": _anywhere(_SOURCES),
        "natives": _anywhere(_NATIVES),
        "headers": _anywhere(_HEADERS),
        "licenses": _LICENSES,
    }
    for name, patterns in kinds.items():
        _group(name, native.glob(patterns, allow_empty = True))
    _group("metadata", native.glob([_METADATA], exclude = _LICENSES, allow_empty = True))
    _group("data", native.glob(
        ["site/**"],
        exclude = [pattern for patterns in kinds.values() for pattern in patterns] + [_METADATA],
        allow_empty = True,
    ))
    for name, path in files.items():
        _group(name, ["site/" + path])

def _group(name, srcs):
    native.filegroup(
        name = name,
        srcs = srcs,
        visibility = ["//visibility:public"],
    )

def _anywhere(patterns):
    return ["site/**/" + pattern for pattern in patterns]
