# SPDX-License-Identifier: Apache-2.0
"""The module extension `pypi`: the hub `@pypi`, and one repository for each locked wheel.

Every module may add locks. All are merged, so a build has one version of a package. With the tag
`replace`, an imported project replaces a locked wheel.
"""

load(
    ":merge.bzl",
    "check_requirements",
    "file_name",
    "merge_annotations",
    "merge_locks",
    "replaced_wheels",
    "with_canonical_labels",
)
load(":repositories.bzl", "hub_repository", "locked_wheel", "wheel_repository_name")

_TORCH_PIN = Label("//third_party/torch:pin.json")

def _name(label):
    return file_name(label.workspace_name, _TORCH_PIN.workspace_name, label.package, label.name)

def _tags(mctx):
    """Return (tag, whether the root module has it) pairs, torch_google's first."""
    tags = [(tag, module.is_root) for module in mctx.modules for tag in module.tags.lock]
    own = _TORCH_PIN.workspace_name
    return ([each for each in tags if each[0].file.workspace_name == own] +
            [each for each in tags if each[0].file.workspace_name != own])

def _packages(mctx, tags):
    locks = {}
    for tag, _ in tags:
        name = _name(tag.file)
        lock = json.decode(mctx.read(tag.file))
        if tag.requirements:
            error = check_requirements(name, lock, _name(tag.requirements), mctx.read(tag.requirements))
            if error:
                fail(error)
        locks[name] = lock
    packages, error = merge_locks(
        locks,
        json.decode(mctx.read(_TORCH_PIN))["wheel"]["filename"].split("-")[1],
    )
    if error:
        fail(error)
    return packages

def _annotations(mctx, tags, packages):
    # torch_google also annotates packages in its development locks. Other workspaces do not have
    # these locks.
    annotations, error = merge_annotations(
        {
            _name(tag.annotations): (
                with_canonical_labels(json.decode(mctx.read(tag.annotations)), tag.annotations.workspace_name),
                is_root,
            )
            for tag, is_root in tags
            if tag.annotations
        },
        packages,
    )
    if error:
        fail(error)
    return annotations

def _replaced(mctx, packages):
    # torch_google also replaces wheels in its development locks. Other workspaces do not have these
    # locks.
    replaced, error = replaced_wheels(
        [
            (tag.wheel, str(tag.by), module.is_root)
            for module in mctx.modules
            for tag in module.tags.replace
        ],
        packages,
    )
    if error:
        fail(error)
    return replaced

def _pypi_impl(mctx):
    tags = _tags(mctx)
    packages = _packages(mctx, tags)
    annotations = _annotations(mctx, tags, packages)
    replaced = _replaced(mctx, packages)
    files = {name: annotations.get(name, {}).get("files", {}) for name in packages}
    for name, package in packages.items():
        if name in replaced:
            continue
        locked_wheel(
            name = wheel_repository_name(name),
            annotation = annotations.get(name, {}),
            package = package,
            replaced = replaced,
        )
    hub_repository(
        name = "pypi",
        replaced = replaced,
        wheels = {name: named.keys() for name, named in files.items()},
    )
    return mctx.extension_metadata(reproducible = True)

_lock = tag_class(
    doc = "A lock. All locks of a build are merged.",
    attrs = {
        "annotations": attr.label(doc = "annotations.json for packages of the lock, see README.md."),
        "file": attr.label(doc = "The lock that update.py wrote.", mandatory = True),
        "requirements": attr.label(
            doc = "The file that the lock was made from. A build fails if it has changed.",
        ),
    },
)

_replace = tag_class(
    doc = "A target that the build uses in place of a locked wheel, also for wheels that require it.",
    attrs = {
        "by": attr.label(doc = "The target, such as `@accelerate`.", mandatory = True),
        "wheel": attr.string(doc = "The wheel's normalized name.", mandatory = True),
    },
)

pypi = module_extension(
    implementation = _pypi_impl,
    doc = "Makes the locked wheels available as `@pypi//NAME`.",
    tag_classes = {
        "lock": _lock,
        "replace": _replace,
    },
)
