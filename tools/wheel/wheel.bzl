# SPDX-License-Identifier: Apache-2.0
"""Public rules: a library as a distribution, in a PAR and as a wheel."""

load("@rules_python//python:defs.bzl", "PyInfo", "py_library")

def python_distribution(
        *,
        name,
        distribution,
        version,
        summary,
        library,
        packages,
        licence,
        exact = [],
        requires = [],
        entry_points = [],
        python_tag = "cp311",
        native_code = True,
        target_compatible_with = None,
        visibility = None):
    """Declares `NAME.installed`, for PARs, and `NAME.whl`.

    Args:
      name: name of the targets.
      distribution: name of the distribution, as pip shows it.
      version: version of the distribution.
      summary: description in one line.
      library: the py_library to ship, with its dependencies in this workspace.
      packages: top-level packages of the library; only their files go into the wheel.
      licence: the licence file, Apache-2.0.
      exact: requirements at exactly the version that the workspace pins.
      requires: requirements at any version.
      entry_points: lines `group: name = module:function`.
      python_tag: tag of the Python version that the library supports.
      native_code: False if the library has no native code.
      target_compatible_with: constraints of `NAME.whl`.
      visibility: visibility of both targets.
    """
    about = {
        "distribution": distribution,
        "entry_points": entry_points,
        "exact": exact,
        "native_code": native_code,
        "python_tag": python_tag,
        "requires": requires,
        "summary": summary,
        "version": version,
    }
    _installed(name, about, visibility)
    _wheel(
        name = name + ".whl",
        dist_info = name + ".metadata",
        library = library,
        licence = licence,
        packages = packages,
        target_compatible_with = target_compatible_with,
        visibility = visibility,
        **about
    )

def installed_distribution(
        *,
        name,
        distribution,
        version,
        summary,
        entry_points,
        python_tag = "cp311",
        visibility = None):
    """Declares only `NAME.installed`, for a part of a distribution that PARs can use alone.

    Args:
      name: name of the target, without `.installed`.
      distribution: name of the distribution for importlib.metadata.
      version: version of the distribution.
      summary: description in one line.
      entry_points: lines `group: name = module:function`.
      python_tag: tag of the Python version that the code supports.
      visibility: visibility of the target.
    """
    _installed(name, {
        "distribution": distribution,
        "entry_points": entry_points,
        "python_tag": python_tag,
        "summary": summary,
        "version": version,
    }, visibility)

def _installed(name, about, visibility):
    _dist_info(
        name = name + ".metadata",
        visibility = ["//visibility:private"],
        **about
    )
    py_library(
        name = name + ".installed",
        data = [name + ".metadata"],
        imports = [name + ".metadata"],
        visibility = visibility,
    )

def _directory(ctx):
    return "%s-%s.dist-info" % (ctx.attr.distribution, ctx.attr.version)

def _description(ctx, **more):
    """Write the description of the distribution, the builder's input."""
    file = ctx.actions.declare_file(ctx.label.name + ".json")
    major, minor = ctx.attr.python_tag[2], ctx.attr.python_tag[3:]
    ctx.actions.write(file, json.encode(dict(
        more,
        entry_points = ctx.attr.entry_points,
        exact = ctx.attr.exact,
        label = str(ctx.label),
        licence = "Apache-2.0",
        name = ctx.attr.distribution,
        python = "==%s.%s.*" % (major, minor),
        requires = ctx.attr.requires,
        summary = ctx.attr.summary,
        version = ctx.attr.version,
    )))
    return file

def _dist_info_impl(ctx):
    description = _description(ctx)
    pins = [ctx.file._lock, ctx.file._torch]
    outputs = [
        ctx.actions.declare_file("%s/%s/%s" % (ctx.label.name, _directory(ctx), name))
        for name in ("METADATA", "entry_points.txt")
    ]
    arguments = ctx.actions.args()
    arguments.add("metadata")
    arguments.add_all([description] + pins + outputs)
    ctx.actions.run(
        executable = ctx.executable._builder,
        arguments = [arguments],
        inputs = [description] + pins,
        outputs = outputs,
        mnemonic = "DistInfo",
        progress_message = "Describing %s" % ctx.attr.distribution,
    )
    files = depset(outputs)
    return [DefaultInfo(files = files, runfiles = ctx.runfiles(transitive_files = files))]

def _path(file):
    """Return a file's path relative to the root of its repository."""
    return file.short_path.split("/", 2)[2] if file.short_path.startswith("../") else file.short_path

def _wheel_impl(ctx):
    tag = "py3-none-any"
    if ctx.attr.native_code:
        tag = "%s-%s-linux_x86_64" % (ctx.attr.python_tag, ctx.attr.python_tag)
    output = ctx.actions.declare_file(
        "%s-%s-%s.whl" % (ctx.attr.distribution, ctx.attr.version, tag),
    )
    directory = _directory(ctx)
    metadata = ctx.files.dist_info
    packages = [package + "/" for package in ctx.attr.packages]
    files = [
        file
        for file in depset(transitive = [
            ctx.attr.library[PyInfo].transitive_sources,
            ctx.attr.library[DefaultInfo].default_runfiles.files,
        ]).to_list()
        # Leave out the metadata of other distributions.
        if ".dist-info/" not in file.short_path and
           [p for p in packages if _path(file).startswith(p)]
    ]
    rows = ["%s\t%s" % (_path(file), file.path) for file in files]
    rows += ["%s/%s\t%s" % (directory, file.basename, file.path) for file in metadata]
    rows.append("%s/licenses/LICENSE\t%s" % (directory, ctx.file.licence.path))
    manifest = ctx.actions.declare_file(ctx.label.name + ".manifest")
    ctx.actions.write(manifest, "\n".join(sorted(rows)) + "\n")

    description = _description(ctx, tag = tag)
    arguments = ctx.actions.args()
    arguments.add("wheel")
    arguments.add_all([description, manifest, output])
    ctx.actions.run(
        executable = ctx.executable._builder,
        arguments = [arguments],
        inputs = [description, manifest, ctx.file.licence] + metadata + files,
        outputs = [output],
        mnemonic = "Wheel",
        progress_message = "Packing %s" % output.short_path,
    )
    return [DefaultInfo(files = depset([output]), runfiles = ctx.runfiles([output]))]

_ABOUT = {
    "distribution": attr.string(mandatory = True),
    "entry_points": attr.string_list(),
    "exact": attr.string_list(),
    "native_code": attr.bool(),
    "python_tag": attr.string(mandatory = True),
    "requires": attr.string_list(),
    "summary": attr.string(mandatory = True),
    "version": attr.string(mandatory = True),
    "_builder": attr.label(
        default = Label("//tools/wheel:builder.par"),
        executable = True,
        # In the "exec" configuration, Bazel would build CPython a second time.
        cfg = "target",
    ),
}

_dist_info = rule(
    doc = "METADATA and entry_points.txt of a distribution, in its .dist-info directory.",
    implementation = _dist_info_impl,
    attrs = dict(
        _ABOUT,
        _lock = attr.label(
            default = Label("//third_party/pypi:lock.json"),
            allow_single_file = True,
        ),
        _torch = attr.label(
            default = Label("//third_party/torch:selected_pin"),
            allow_single_file = True,
        ),
    ),
)

_wheel = rule(
    doc = "A wheel, installable by pip.",
    implementation = _wheel_impl,
    attrs = dict(
        _ABOUT,
        dist_info = attr.label(mandatory = True),
        library = attr.label(mandatory = True, providers = [PyInfo]),
        licence = attr.label(mandatory = True, allow_single_file = True),
        packages = attr.string_list(mandatory = True),
    ),
)
