# SPDX-License-Identifier: Apache-2.0
"""The rules behind par_binary and par_test: one program, from runfiles or packed."""

load("@rules_python//python:defs.bzl", "PyInfo")
load(":compiler.bzl", "COMPILER_ATTRS", "run_compiler", "runfiles_path", "runfiles_path_in")
load(":providers.bzl", "ParInfo", "ParPackedInfo", "collect_bundles")

_PROGRAM_ATTRS = {
    "lib": attr.label(
        doc = "The program's code and data.",
        mandatory = True,
        providers = [PyInfo],
        aspects = [collect_bundles],
    ),
    "main_module": attr.string(doc = "Dotted name of the module to run.", mandatory = True),
    "launcher": attr.label(
        doc = "The interpreter, with the program's static extensions.",
        default = Label("//tools/par/launcher:program"),
        executable = True,
        cfg = "target",
    ),
    "fast_exit": attr.bool(default = True),
    "licences": attr.label(
        doc = "Licence texts of the projects that the launcher is linked from, for packed programs.",
        default = Label("//tools/par/launcher:program.licences"),
        providers = [ParInfo],
    ),
    "startup_gc": attr.bool(default = False),
    "doors": attr.bool(
        doc = "False: the program ignores the environment variables PAR_*.",
        default = True,
    ),
    "cuda": attr.string(
        doc = "`packed`: contain the libraries of CUDA that the wheels need; `system`: use the machine's.",
        default = "packed",
        values = ["packed", "system"],
    ),
    "env": attr.string_dict(doc = "Environment of `bazel run` and `bazel test`."),
    "_base": attr.label_list(
        doc = "Bundles of every program: standard library, runtime.",
        default = [
            Label("//tools/par/runtime:stdlib"),
            Label("//tools/par/runtime:runtime"),
            Label("//tools/par/runtime:python_headers"),
        ],
        providers = [ParInfo],
    ),
}

def _all_bundles(ctx, extra = []):
    bundles = [target[ParInfo].bundles for target in ctx.attr._base + extra]
    bundles.append(ctx.attr.lib[ParInfo].bundles)
    return depset(transitive = bundles).to_list()

def _used(ctx, bundles):
    """Return the bundles without those that the program leaves to the machine."""
    return [b for b in bundles if not (b.toolkit == "cuda" and ctx.attr.cuda == "system")]

def _import_roots(ctx):
    """Return the sys.path entries of the program's own code, below the runfiles, longest first."""
    wheels = {runfiles_path(ctx, b.directory): None for b in _all_bundles(ctx)}
    roots = [r for r in ctx.attr.lib[PyInfo].imports.to_list() if r not in wheels]

    # A module in an external repository is imported by its path from that repository's root. For
    # other workspaces, torch_google itself is an external repository.
    repositories = {
        file.owner.workspace_name: None
        for file in ctx.attr.lib[PyInfo].transitive_sources.to_list()
        if file.owner.workspace_name
    }
    return sorted(roots, key = lambda r: -len(r)) + [ctx.workspace_name] + sorted(repositories)

def _from_runfiles(ctx):
    """Declare the program's launcher and its configuration. Return DefaultInfo."""
    program = ctx.actions.declare_file(ctx.label.name)
    python = ctx.actions.declare_file(ctx.label.name + ".python/python3")
    lines = ["main\t" + ctx.attr.main_module, "python\t" + runfiles_path(ctx, python)]
    for name in ("fast_exit", "startup_gc"):
        if getattr(ctx.attr, name):
            lines.append(name + "\t1")
    if not ctx.attr.doors:
        lines.append("doors\t0")  # launcher/invocation.c reads this line
    if ctx.attr.cuda == "system":
        lines.append("cuda\tsystem")
    bundles = _used(ctx, _all_bundles(ctx))
    lines += [
        "bundle\t%s\t%s" % (runfiles_path(ctx, b.archive), runfiles_path(ctx, b.directory))
        for b in bundles
    ]
    lines += ["path\t" + root for root in _import_roots(ctx)]
    files = [python]
    for executable in (program, python):
        ctx.actions.symlink(
            output = executable,
            target_file = ctx.executable.launcher,
            is_executable = True,
        )
        config = ctx.actions.declare_file(
            executable.basename + ".par_config",
            sibling = executable,
        )
        ctx.actions.write(config, "\n".join(lines) + "\n")
        files.append(config)
    for bundle in bundles:
        files += [bundle.archive, bundle.directory]
    runfiles = ctx.runfiles(
        files = files + [program],
        transitive_files = ctx.attr.lib[PyInfo].transitive_sources,
    ).merge(ctx.attr.lib[DefaultInfo].default_runfiles)
    return DefaultInfo(executable = program, files = depset([program]), runfiles = runfiles)

def _program_impl(ctx):
    return [
        _from_runfiles(ctx),
        RunEnvironmentInfo(environment = ctx.attr.env),
    ]

par_program = rule(
    implementation = _program_impl,
    attrs = _PROGRAM_ATTRS,
    executable = True,
)

par_program_test = rule(
    implementation = _program_impl,
    attrs = _PROGRAM_ATTRS,
    test = True,
)

def _manifest(ctx, files, output):
    """Write "name<tab>path" lines. A name is a path relative to the most specific import root."""
    roots = [root + "/" for root in _import_roots(ctx)]
    workspace = ctx.workspace_name

    def row(file):
        path = runfiles_path_in(workspace, file)
        for root in roots:
            if path.startswith(root):
                return "%s\t%s" % (path[len(root):], file.path)
        return "%s\t%s" % (path.partition("/")[2], file.path)

    arguments = ctx.actions.args()
    arguments.set_param_file_format("multiline")
    arguments.add_all(files, map_each = row, allow_closure = True, expand_directories = False)
    ctx.actions.write(output, arguments)

def _pack(ctx, output):
    """Declare the action that links the program. Return its ParPackedInfo."""
    all_bundles = _all_bundles(ctx, ctx.attr._packed_base + [ctx.attr.licences])
    bundles = _used(ctx, all_bundles)
    packed = {}
    for bundle in all_bundles:
        packed[bundle.archive.path] = None
        packed[bundle.directory.path] = None

    # The files in a bundle's directory are already in its archive, so the directory is not an input
    # of the link action. Tracking its thousands of files would take Bazel longer than linking does.
    own = [
        file
        for file in depset(transitive = [
            ctx.attr.lib[PyInfo].transitive_sources,
            ctx.attr.lib[DefaultInfo].default_runfiles.files,
        ]).to_list()
        if file.path not in packed
    ]
    manifest = ctx.actions.declare_file(output.basename + ".manifest", sibling = output)
    _manifest(ctx, own, manifest)
    arguments = ctx.actions.args()
    arguments.add(output, format = "--output=%s")
    arguments.add(ctx.executable.launcher, format = "--launcher=%s")
    arguments.add(ctx.attr.main_module, format = "--main=%s")
    arguments.add(manifest, format = "--files=%s")
    if ctx.attr.fast_exit:
        arguments.add("--fast-exit")
    if ctx.attr.startup_gc:
        arguments.add("--startup-gc")
    if not ctx.attr.doors:
        arguments.add("--no-doors")
    if ctx.attr.cuda == "system":
        arguments.add("--system-cuda")
    for label, key in ctx.attr.info.items():
        arguments.add(label[DefaultInfo].files.to_list()[0], format = "--info=%s=%%s" % key)
    archives = [bundle.archive for bundle in bundles]
    arguments.add_all(archives)
    run_compiler(
        ctx,
        "link",
        arguments,
        depset(
            [ctx.executable.launcher, manifest] + archives + own,
            transitive = [label[DefaultInfo].files for label in ctx.attr.info],
        ),
        [output],
        "ParLink",
        "Linking %s" % output.short_path,
        # Linking a PAR is as fast as downloading it, and in a full cache, each PAR would evict
        # about a hundred object files, so do not cache PARs.
        requirements = {"no-cache": ""},
    )
    return ParPackedInfo(
        bundles = archives,
        doors = ctx.attr.doors,
        launcher = ctx.executable.launcher,
    )

def _packed_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name)
    return [
        _pack(ctx, output),
        DefaultInfo(executable = output, files = depset([output])),
        RunEnvironmentInfo(environment = ctx.attr.env),
    ]

_PACKED_ATTRS = dict(
    _PROGRAM_ATTRS,
    info = attr.label_keyed_string_dict(
        doc = "Files whose SHA-256 PAR_INFO shows, by key.",
        default = {Label("//third_party/pypi:lock.json"): "lock_sha256"},
        allow_files = True,
    ),
    _packed_base = attr.label_list(
        default = [Label("//tools/par/runtime:cc_runtime")],
        providers = [ParInfo],
    ),
    **COMPILER_ATTRS
)

par_packed = rule(
    implementation = _packed_impl,
    attrs = _PACKED_ATTRS,
    executable = True,
)

par_packed_test = rule(
    implementation = _packed_impl,
    attrs = _PACKED_ATTRS,
    test = True,
)

def _shared_test_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(
        output = output,
        target_file = ctx.executable.program,
        is_executable = True,
    )
    environment = ctx.attr.program[RunEnvironmentInfo].environment
    return [
        DefaultInfo(
            executable = output,
            files = depset([output]),
            runfiles = ctx.runfiles(files = [ctx.executable.program]),
        ),
        RunEnvironmentInfo(environment = dict(environment, **ctx.attr.env)),
    ]

par_shared_test = rule(
    implementation = _shared_test_impl,
    attrs = {
        "env": attr.string_dict(doc = "Added to the program's own environment."),
        "program": attr.label(
            doc = "A packed program.",
            cfg = "target",
            executable = True,
            mandatory = True,
            providers = [RunEnvironmentInfo],
        ),
    },
    test = True,
)
