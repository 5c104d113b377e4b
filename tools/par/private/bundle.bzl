# SPDX-License-Identifier: Apache-2.0
"""par_wheel: a directory with an unpacked wheel, compiled once for every program that uses it."""

load("@rules_python//python:defs.bzl", "PyInfo")
load(":compiler.bzl", "COMPILER_ATTRS", "run_compiler", "runfiles_path")
load(":providers.bzl", "ParInfo")

def _par_wheel_impl(ctx):
    site = ctx.file.site
    archive = ctx.actions.declare_file(ctx.label.name + ".parlib")
    inputs = [site]
    arguments = ctx.actions.args()
    arguments.add(archive, format = "--output=%s")
    arguments.add(ctx.attr.distribution or ctx.label.name, format = "--name=%s")
    if ctx.attr.prefix:
        arguments.add(ctx.attr.prefix, format = "--prefix=%s")
    if not ctx.attr.zip_safe:
        arguments.add("--unpacked")
    if ctx.attr.kernels:
        arguments.add("--kernels")
    arguments.add_all(ctx.attr.drop, format_each = "--drop=%s")
    arguments.add_all(ctx.attr.cold, format_each = "--cold=%s")
    arguments.add_all(
        ["%s=%s" % pair for pair in ctx.attr.environment.items()],
        format_each = "--environment=%s",
    )
    if ctx.file.info:
        arguments.add(ctx.file.info, format = "--info=%s")
        inputs.append(ctx.file.info)
    arguments.add(site.path)
    run_compiler(
        ctx,
        "bundle",
        arguments,
        depset(inputs),
        [archive],
        "ParBundle",
        "Compiling %s for PARs" % ctx.attr.distribution,
    )

    bundle = struct(
        name = ctx.attr.distribution,
        archive = archive,
        directory = site,
        toolkit = ctx.attr.toolkit,
    )
    runfiles = ctx.runfiles(files = [site, archive]).merge_all(
        [dep[DefaultInfo].default_runfiles for dep in ctx.attr.deps],
    )
    return [
        DefaultInfo(files = depset([site]), runfiles = runfiles),
        PyInfo(
            transitive_sources = depset(),
            imports = depset(
                [runfiles_path(ctx, site)],
                transitive = [dep[PyInfo].imports for dep in ctx.attr.deps],
            ),
        ),
        ParInfo(bundles = depset(
            [bundle],
            transitive = [dep[ParInfo].bundles for dep in ctx.attr.deps],
            order = "preorder",
        )),
        OutputGroupInfo(parlib = depset([archive])),
    ]

par_wheel = rule(
    doc = "Python packages in one directory, as a dependency of py_library and par_binary.",
    implementation = _par_wheel_impl,
    attrs = dict(
        COMPILER_ATTRS,
        site = attr.label(
            doc = "A source directory or tree artifact: the import root.",
            allow_single_file = True,
            mandatory = True,
        ),
        distribution = attr.string(
            doc = "Name of the distribution and prefix of the directory it is unpacked to.",
            mandatory = True,
        ),
        version = attr.string(doc = "Version of the distribution, for `bazel query`."),
        deps = attr.label_list(
            doc = "Other wheels that it imports.",
            providers = [[ParInfo, PyInfo]],
        ),
        zip_safe = attr.bool(
            doc = "False if its code opens files next to __file__: then all its files are unpacked.",
            default = True,
        ),
        drop = attr.string_list(
            doc = "Directories that no program needs, from the root or `*/NAME` at any depth.",
        ),
        cold = attr.string_list(
            doc = "Directories and files, `.` for all, whose code few programs import: it is stored " +
                  "compressed instead of ready to map.",
        ),
        environment = attr.string_dict(
            doc = "Environment variables to set before the first import, for its native libraries. The " +
                  "caller's values take precedence.",
        ),
        kernels = attr.bool(
            doc = "Whether most bytes of its libraries are kernels for GPUs, which are compressed already.",
        ),
        prefix = attr.string(doc = "Directory in the archive; the import root if empty."),
        toolkit = attr.string(
            doc = "`cuda` if these are libraries of CUDA, which a program with cuda = \"system\" leaves " +
                  "to the machine.",
            values = ["", "cuda"],
        ),
        info = attr.label(
            doc = "A JSON file that PAR_INFO shows under the distribution's name.",
            allow_single_file = True,
        ),
    ),
    provides = [PyInfo, ParInfo],
)
