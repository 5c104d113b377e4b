# SPDX-License-Identifier: Apache-2.0
"""The targets of an unpacked wheel, the same for every wheel of the workspace."""

load("//tools/par:par.bzl", "par_wheel")

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

# What each wheel offers beside `:wheel`; the hub forwards the same names.
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
        info = None):
    """Declares `:wheel` and one filegroup for each kind of file under `site/`.

    Args:
      distribution: the name in the wheel's METADATA.
      version: the wheel's version.
      deps: labels of other wheels' `:wheel`.
      zip_safe: False if the package opens files beside its modules.
      files: name -> path in the wheel; each becomes a target of its own.
      cold: directories with code that is stored compressed, see par_wheel.
      drop: directories that stay out of programs, see par_wheel.
      environment: what its libraries shall find in the environment, see par_wheel.
      info: a JSON file on the wheel's origin, for PAR_INFO.
    """
    par_wheel(
        name = "wheel",
        site = "site",
        distribution = distribution,
        version = version,
        deps = deps,
        cold = cold,
        drop = drop,
        environment = environment,
        info = info,
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
