# SPDX-License-Identifier: Apache-2.0
"""Public rules: PARs as a container image, in the layout of the Open Container Initiative."""

load("//tools/par:par.bzl", "ParPackedInfo")

OciImageInfo = provider(
    doc = "An image that oci_image has built.",
    fields = {
        "layout": "File: the directory with its OCI layout.",
        "statements": "File: the layout with its bill of materials and provenance.",
    },
)

# Images are large, and building one is as fast as downloading it, so do not cache them.
_NOT_CACHED = {"no-cache": ""}

def oci_image(name, par, base = None, tag = "latest", env = {}, labels = {}, **kwargs):
    """Declares an image that runs a PAR without root rights and without a shell.

    `NAME` is the layout, a directory. `NAME.tar` is the same layout as one file.
    `bazel run NAME.push -- REGISTRY/REPOSITORY:TAG` pushes the image, and prints its digest.

    Args:
      name: name of the image.
      par: a par_binary's `NAME.par`, or a list of them. The image runs the first; the others are in
        the same directory, /app.
      base: the layout of the base image, such as a rules_oci image. By default, it contains only
        the C library.
      tag: the image's name in the layout.
      env: environment variables.
      labels: labels of the configuration, which are also annotations of the manifest.
      **kwargs: common attributes.
    """
    _image(
        name = name,
        base = base or Label("//tools/oci:libc"),
        env = env,
        labels = labels,
        libc = base == None,
        pars = par if type(par) == "list" else [par],
        tag = tag,
        **kwargs
    )

    # Build this file only on request, because it is as large as the image and few users need it.
    only_on_request = dict(kwargs, tags = kwargs.get("tags", []) + ["manual"])
    _tar(name = name + ".tar", image = name, **only_on_request)
    _push(name = name + ".push", image = name, **kwargs)

def _compressed_layers(ctx):
    """Declare the action that compresses the layers that contain no code of the workspace.

    An edit of that code does not run it again. Returns a list with its directory, or an empty list
    if a program is not a par_binary's.
    """
    if [par for par in ctx.attr.pars if ParPackedInfo not in par]:
        return []
    output = ctx.actions.declare_directory(ctx.label.name + ".layers")
    programs, inputs = [], []
    for par in ctx.attr.pars:
        info = par[ParPackedInfo]
        inputs += [info.launcher] + info.bundles
        programs.append({
            "bundles": [bundle.path for bundle in info.bundles],
            "doors": info.doors,
            "launcher": info.launcher.path,
            "name": par[DefaultInfo].files.to_list()[0].basename,
        })
    arguments = ctx.actions.args()
    arguments.use_param_file("@%s")
    arguments.set_param_file_format("multiline")
    arguments.add("layers")
    arguments.add(output.path, format = "--output=%s")
    arguments.add(json.encode(programs), format = "--programs=%s")
    ctx.actions.run(
        executable = ctx.executable._builder,
        arguments = [arguments],
        inputs = inputs,
        outputs = [output],
        mnemonic = "OciLayers",
        progress_message = "Compressing layers of the image %{label}",
        execution_requirements = _NOT_CACHED,
    )
    return [output]

def _image_impl(ctx):
    layout = ctx.actions.declare_directory(ctx.label.name)
    statements = ctx.actions.declare_directory(ctx.label.name + ".statements")
    if len(ctx.files.base) != 1:
        fail("%s: base: found %d files, expected one directory with an OCI layout" % (
            ctx.label,
            len(ctx.files.base),
        ))
    base = ctx.files.base[0]
    layers = _compressed_layers(ctx)
    materials = ctx.files._locks + [ctx.file._torch]
    arguments = ctx.actions.args()
    arguments.add("image")
    arguments.add(layout.path, format = "--output=%s")
    arguments.add(statements.path, format = "--statements=%s")
    arguments.add(base.path, format = "--base=%s")
    arguments.add_all(ctx.files.pars, format_each = "--par=%s")
    arguments.add(ctx.attr.tag, format = "--tag=%s")
    arguments.add(json.encode(ctx.attr.env), format = "--env=%s")
    arguments.add(json.encode(ctx.attr.labels), format = "--labels=%s")
    arguments.add("//%s:%s" % (ctx.label.package, ctx.label.name), format = "--target=%s")
    arguments.add(ctx.file._bill, format = "--bill=%s")
    for material in materials:
        arguments.add(material, format = "--material=%s=%%s" % material.short_path)
    if ctx.attr.libc:
        arguments.add("--libc")
    arguments.add_all([layer.path for layer in layers], format_each = "--layers=%s")
    ctx.actions.run(
        executable = ctx.executable._builder,
        arguments = [arguments],
        inputs = ctx.files.pars + [base, ctx.file._bill] + layers + materials,
        outputs = [layout, statements],
        mnemonic = "OciImage",
        progress_message = "Building the image %{label}",
        execution_requirements = _NOT_CACHED,
    )
    return [
        DefaultInfo(files = depset([layout]), runfiles = ctx.runfiles([layout])),
        OciImageInfo(layout = layout, statements = statements),
        OutputGroupInfo(statements = depset([statements])),
    ]

_BUILDER = attr.label(
    default = Label("//tools/oci:builder.par"),
    executable = True,
    # In the "exec" configuration, Bazel would build CPython a second time.
    cfg = "target",
)

_image = rule(
    implementation = _image_impl,
    attrs = {
        "base": attr.label(allow_files = True, mandatory = True),
        "env": attr.string_dict(),
        "labels": attr.string_dict(),
        "libc": attr.bool(doc = "Whether the base is the C library of this workspace."),
        "pars": attr.label_list(allow_empty = False, allow_files = True, mandatory = True),
        "tag": attr.string(mandatory = True),
        "_bill": attr.label(
            default = Label("//third_party:sbom.spdx.json"),
            allow_single_file = True,
        ),
        "_builder": _BUILDER,
        "_locks": attr.label_list(
            default = [
                Label("//third_party/pypi:lock.json"),
                Label("//third_party/torch:selected_lock"),
            ],
            allow_files = True,
        ),
        "_torch": attr.label(
            default = Label("//third_party/torch:selected_pin"),
            allow_single_file = True,
        ),
    },
    provides = [OciImageInfo],
)

def _tar_impl(ctx):
    layout = ctx.attr.image[OciImageInfo].layout
    output = ctx.actions.declare_file(ctx.label.name)
    arguments = ctx.actions.args()
    arguments.add("tar")
    arguments.add(output, format = "--output=%s")
    arguments.add(layout.path)
    ctx.actions.run(
        executable = ctx.executable._builder,
        arguments = [arguments],
        inputs = [layout],
        outputs = [output],
        mnemonic = "OciTar",
        progress_message = "Packing the image %s" % output.short_path,
        execution_requirements = _NOT_CACHED,
    )
    return [DefaultInfo(files = depset([output]))]

_tar = rule(
    implementation = _tar_impl,
    attrs = {
        "image": attr.label(mandatory = True, providers = [OciImageInfo]),
        "_builder": _BUILDER,
    },
)

_PUSH = """\
#!/bin/sh
# Written by oci_image: pushes one image and its statements.
case $0 in /*) self=$0 ;; *) self=$PWD/$0 ;; esac
[ -d "$self.runfiles" ] && cd "$self.runfiles/{workspace}"
exec {pusher} --layout={layout} --statements={statements} "$@"
"""

def _push_impl(ctx):
    image = ctx.attr.image[OciImageInfo]
    output = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(
        output,
        _PUSH.format(
            layout = image.layout.short_path,
            pusher = ctx.executable._pusher.short_path,
            statements = image.statements.short_path,
            workspace = ctx.workspace_name,
        ),
        is_executable = True,
    )
    files = [image.layout, image.statements, ctx.executable._pusher]
    return [DefaultInfo(executable = output, runfiles = ctx.runfiles(files))]

_push = rule(
    implementation = _push_impl,
    attrs = {
        "image": attr.label(mandatory = True, providers = [OciImageInfo]),
        "_pusher": attr.label(
            default = Label("//tools/oci:pusher.par"),
            executable = True,
            cfg = "target",
        ),
    },
    executable = True,
)

# The shared libraries in Debian's libc6 package, which third_party/clang unpacks.
_LIBC = [
    "ld-linux-x86-64.so.2",
    "libanl.so.1",
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libmvec.so.1",
    "libnss_compat.so.2",
    "libnss_dns.so.2",
    "libnss_files.so.2",
    "libpthread.so.0",
    "libresolv.so.2",
    "librt.so.1",
    "libutil.so.1",
]

def _libc_base_impl(ctx):
    output = ctx.actions.declare_directory(ctx.label.name)
    libraries = [
        file
        for file in ctx.files.packages
        if file.dirname.endswith("root/lib/x86_64-linux-gnu") and file.basename in _LIBC
    ]
    if len(libraries) != len(_LIBC):
        fail("%s: third_party/clang has %d of %d libraries of libc6; correct _LIBC" % (
            ctx.label,
            len(libraries),
            len(_LIBC),
        ))
    copyright_file = [file for file in ctx.files.licences if file.basename == "libc6.txt"][0]
    arguments = ctx.actions.args()
    arguments.add("base")
    arguments.add(output.path, format = "--output=%s")
    arguments.add(copyright_file, format = "--copyright=%s")
    arguments.add_all(libraries)
    ctx.actions.run(
        executable = ctx.executable._builder,
        arguments = [arguments],
        inputs = libraries + [copyright_file],
        outputs = [output],
        mnemonic = "OciBase",
        progress_message = "Building the base image %{label}",
    )
    return [DefaultInfo(files = depset([output]))]

libc_base = rule(
    doc = "The layout of an image with only the C library. For //tools/oci:libc.",
    implementation = _libc_base_impl,
    attrs = {
        "licences": attr.label(mandatory = True),
        "packages": attr.label(mandatory = True),
        "_builder": _BUILDER,
    },
)
