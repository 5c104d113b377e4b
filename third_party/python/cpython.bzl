# SPDX-License-Identifier: Apache-2.0
"""`cpython`: one action that turns CPython's sources into a static library and a plain interpreter."""

load("@rules_cc//cc:defs.bzl", "CcInfo")
load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")

def _relative(file, folders):
    """The file's path below the longest of the include folders that holds it."""
    best = ""
    for folder in folders:
        if file.path == folder:
            return ""
        if file.path.startswith(folder + "/") and len(folder) > len(best):
            best = folder
    return file.path[len(best) + 1:] if best else file.basename

def _stages(target, name):
    """Where one dependency's headers and libraries go below deps/: [(file, place)]."""
    info = target[CcInfo]
    compilation = info.compilation_context
    folders = compilation.system_includes.to_list() + compilation.includes.to_list()
    stages = []
    for header in compilation.direct_public_headers:
        below = _relative(header, folders)
        stages.append((header, "include/" + below))
    for linker_input in info.linking_context.linker_inputs.to_list():
        for library in linker_input.libraries:
            archive = library.static_library or library.pic_static_library
            stages.append((archive, "lib/lib{}.a".format(name) if name else "lib/" + archive.basename))
    return stages

def _cpython_impl(ctx):
    cc = find_cc_toolchain(ctx)
    stages = [stage for dep, name in ctx.attr.deps.items() for stage in _stages(dep, name)]
    stdlib = ctx.actions.declare_directory("lib/python3.11")
    include = ctx.actions.declare_directory("include/python3.11")
    python = ctx.actions.declare_directory("python")
    args = ctx.actions.args()
    args.add(ctx.file.configure.dirname)
    args.add(ctx.executable.make)
    args.add(cc.compiler_executable)
    args.add(cc.ar_executable)
    args.add_all([ctx.file.setup_local, ctx.file._install, ctx.outputs.library])
    args.add_all([stdlib, include, python], expand_directories = False)
    args.add_all(["{}={}".format(file.path, place) for file, place in stages])
    ctx.actions.run(
        executable = ctx.executable._build,
        arguments = [args],
        inputs = depset(
            [ctx.file.setup_local, ctx.file._install] + ctx.files.sources + [file for file, _ in stages],
            transitive = [cc.all_files],
        ),
        tools = [ctx.executable.make],
        outputs = [ctx.outputs.library, stdlib, include, python],
        use_default_shell_env = True,
        # make runs two jobs at a time.
        execution_requirements = {"resources:cpu:2": ""},
        mnemonic = "CPython",
        progress_message = "Building CPython (two to four minutes)",
    )
    return [
        DefaultInfo(files = depset([ctx.outputs.library])),
        OutputGroupInfo(
            stdlib = depset([stdlib]),
            include = depset([include]),
            python = depset([python]),
        ),
    ]

cpython = rule(
    doc = """Static CPython.

Output groups: `stdlib` (the contents of lib/python3.11), `include` (of include/python3.11) and
`python` (a relocatable interpreter: bin/python3.11 and lib/python3.11), one directory each.""",
    implementation = _cpython_impl,
    attrs = {
        "configure": attr.label(allow_single_file = True, mandatory = True),
        "deps": attr.label_keyed_string_dict(
            doc = "The C libraries of stdlib modules, and the name that -l gives each.",
            providers = [CcInfo],
        ),
        "library": attr.output(mandatory = True),
        "make": attr.label(executable = True, cfg = "exec", mandatory = True),
        "setup_local": attr.label(allow_single_file = True, mandatory = True),
        "sources": attr.label(mandatory = True),
        "_build": attr.label(
            default = ":build.sh",
            allow_single_file = True,
            executable = True,
            cfg = "exec",
        ),
        "_install": attr.label(default = ":install.py", allow_single_file = True),
    },
    toolchains = use_cc_toolchain(),
)
