# SPDX-License-Identifier: Apache-2.0
"""Supply Debian's Bazel, which has no registry, with Bazel modules through `--override_module`.

`--override_module` ignores versions. Therefore, the workspace's single MODULE.bazel works both with
official Bazel releases (exact versions from the public registry) and with Debian's Bazel (the rule
sets that Debian ships). The options are in the prefix's own bazelrc, because official releases must
not see them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

# Maps modules to directories under usr/share/bazel.
DEBIAN_MODULES: Mapping[str, str] = {
    "bazel_features": "tools/features",
    "bazel_skylib": "tools/skylib",
    "platforms": "tools/platforms",
    "rules_cc": "rules/cc",
    "rules_java": "rules/java",
    "rules_license": "rules/license",
    "rules_proto": "rules/proto",
    "rules_python": "rules/python",
    "rules_shell": "rules/shell",
}

# Modules that Bazel's own MODULE file or Debian's rule sets require, but that our builds never
# load.
_STUBS = ("apple_support", "buildozer", "protobuf", "zlib")

# @bazel_tools uses this module extension, although buildozer never runs.
_BUILDOZER_EXTENSION = """\
def _empty(ctx):
    ctx.file("BUILD.bazel", "")

_repository = repository_rule(implementation = _empty)

def _extension(_ctx):
    _repository(name = "buildozer_binary")

buildozer_binary = module_extension(implementation = _extension)
"""


def module_directories(install_base: Path) -> dict[str, Path]:
    """Map each module in the prefix to its directory."""
    stubs = {name: install_base / "stubs" / name for name in _STUBS}
    return {**{name: install_base / path for name, path in DEBIAN_MODULES.items()}, **stubs}


def write_stubs(install_base: Path) -> None:
    """Write the stub modules to the install base of an unfinished prefix."""
    for name in _STUBS:
        directory = install_base / "stubs" / name
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "MODULE.bazel").write_text(f'module(name = "{name}")\n')
        (directory / "BUILD.bazel").write_text("")
    (install_base / "stubs/buildozer/buildozer_binary.bzl").write_text(_BUILDOZER_EXTENSION)


def rc(install_base: Path, *, registry: Path) -> str:
    """Return the bazelrc of the prefix. `registry` is the directory of an empty registry."""
    lines = [
        "# Written by tools/bazel. Modules come from this prefix; no version is looked up.",
        *(
            f"common --override_module={name}={path}"
            for name, path in module_directories(install_base).items()
        ),
        "# An empty registry: an unknown module fails at once instead of waiting for a network.",
        f"common --registry=file://{registry}",
        "# MODULE.bazel.lock pins the public registry, which these modules do not come from.",
        "common --lockfile_mode=off",
        "# The rules that Bazel adds to each WORKSPACE are not in this prefix either.",
        "common --noenable_workspace",
    ]
    return "\n".join(lines) + "\n"
