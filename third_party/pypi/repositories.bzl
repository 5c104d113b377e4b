# SPDX-License-Identifier: Apache-2.0
"""Repository rules for a wheel, and for the hub with aliases to all wheels."""

load(":fetch_wheel.bzl", "fetch_wheel")

_WHEEL_BUILD = """\
load("{wheel_targets}", "wheel_targets")

wheel_targets(
    distribution = {distribution},
    version = {version},
    deps = {deps},
    zip_safe = {zip_safe},
    files = {files},
    cold = {cold},
    environment = {environment},
    overlay = {overlay},
    toolkit = {toolkit},
)
"""

_HUB_BUILD = """\
load("{hub_aliases}", "hub_aliases")

hub_aliases(
    name = {name},
    wheel = {wheel},
    files = {files},
)
"""

def wheel_repository_name(name):
    """Returns the name of a wheel's repository, given the wheel's normalized name."""
    return "pypi_" + name

def locked_wheel(*, name, package, annotation, replaced):
    """Declares the repository of a locked wheel.

    Args:
      name: the repository's name.
      package: the wheel's row in its lock, and `lock`, the lock's name for messages.
      annotation: the wheel's row in annotations.json; {} if it has none.
      replaced: normalized name of a required wheel -> label to use in place of the one in `@pypi`.
    """
    wheel_repository(
        name = name,
        distribution = package["distribution"],
        environment = annotation.get("environment", {}),
        filename = package["filename"],
        files = annotation.get("files", {}),
        lock = package["lock"],
        overlay = annotation.get("overlay"),
        replaced = {each: replaced[each] for each in package["requires"] if each in replaced},
        requires = package["requires"],
        sha256 = package["sha256"],
        toolkit = annotation.get("toolkit", ""),
        version = package["version"],
        zip_safe = annotation.get("zip_safe", True),
        hot = annotation.get("hot", False),
    )

def _wheel_label(name, replaced):
    if name in replaced:
        return replaced[name]

    # torch is not in any lock: its label is an alias of the selected release.
    return "@torch//:torch" if name == "torch" else "@%s//:wheel" % wheel_repository_name(name)

def _wheel_repository_impl(rctx):
    fetch_wheel(
        rctx,
        requirement = "%s==%s" % (rctx.attr.distribution, rctx.attr.version),
        filename = rctx.attr.filename,
        sha256 = rctx.attr.sha256,
        source = rctx.attr.lock,
    )
    rctx.file("BUILD.bazel", _WHEEL_BUILD.format(
        wheel_targets = Label(":wheel_targets.bzl"),
        distribution = repr(rctx.attr.distribution),
        version = repr(rctx.attr.version),
        deps = repr([_wheel_label(name, rctx.attr.replaced) for name in rctx.attr.requires]),
        zip_safe = rctx.attr.zip_safe,
        files = repr(rctx.attr.files),
        cold = repr([] if rctx.attr.hot else ["."]),
        environment = repr(rctx.attr.environment),
        overlay = repr(str(rctx.attr.overlay) if rctx.attr.overlay else None),
        toolkit = repr(rctx.attr.toolkit),
    ))

wheel_repository = repository_rule(
    implementation = _wheel_repository_impl,
    doc = "One wheel, fetched by its hash and unpacked into `site/`.",
    attrs = {
        "distribution": attr.string(mandatory = True),
        "environment": attr.string_dict(doc = "Variables to set for its native libraries."),
        "filename": attr.string(mandatory = True),
        "files": attr.string_dict(doc = "Target name -> path in the wheel."),
        "hot": attr.bool(doc = "Store its code uncompressed, to map it at the start of programs."),
        "lock": attr.string(doc = "The lock that pins it, for messages.", mandatory = True),
        "overlay": attr.label(doc = "A wheel_overlay with changes to its files."),
        "replaced": attr.string_dict(doc = "Normalized name of a required wheel -> label in its place."),
        "requires": attr.string_list(doc = "Normalized names of the wheels that it requires."),
        "sha256": attr.string(mandatory = True),
        "toolkit": attr.string(doc = "See par_wheel."),
        "version": attr.string(mandatory = True),
        "zip_safe": attr.bool(default = True),
    },
)

def _hub_repository_impl(rctx):
    rctx.file("BUILD.bazel", "")
    for name, files in rctx.attr.wheels.items():
        rctx.file(name + "/BUILD.bazel", _HUB_BUILD.format(
            hub_aliases = Label(":hub_aliases.bzl"),
            name = repr(name),
            wheel = repr(_wheel_label(name, rctx.attr.replaced)),
            files = repr([] if name in rctx.attr.replaced else files),
        ))

hub_repository = repository_rule(
    implementation = _hub_repository_impl,
    doc = "One package for each wheel, with aliases into the wheel's repository.",
    attrs = {
        "replaced": attr.string_dict(doc = "Normalized name -> label in place of the wheel."),
        "wheels": attr.string_list_dict(
            doc = "Normalized name -> names of the wheel's single-file targets.",
            mandatory = True,
        ),
    },
)
