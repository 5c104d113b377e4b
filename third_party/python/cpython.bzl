# SPDX-License-Identifier: Apache-2.0
"""`cpython`: builds CPython's sources as a static library and a plain interpreter."""

load("@rules_cc//cc:defs.bzl", "CcInfo")
load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")

def _relative(file, folders):
    """Return the file's path below the longest include folder that contains it."""
    best = ""
    for folder in folders:
        if file.path == folder:
            return ""
        if file.path.startswith(folder + "/") and len(folder) > len(best):
            best = folder
    return file.path[len(best) + 1:] if best else file.basename

def _stages(target, name):
    """Return [(file, path below deps/)] of one dependency's headers and libraries."""
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

def _run(ctx, cc, step, arguments, stages, inputs, outputs, **kwargs):
    """Declare one step of build.sh."""
    args = ctx.actions.args()
    args.add_all([step, ctx.file.configure.dirname, cc.compiler_executable, cc.ar_executable])
    args.add_all(arguments, expand_directories = False)
    args.add_all(["{}={}".format(file.path, path) for file, path in stages])
    ctx.actions.run(
        executable = ctx.executable._build,
        arguments = [args],
        inputs = depset(
            inputs + ctx.files.sources + [file for file, _ in stages],
            transitive = [cc.all_files],
        ),
        outputs = outputs,
        use_default_shell_env = True,
        **kwargs
    )

def _place(ctx):
    return "separate/" if ctx.attr.separately else ""

def _configure(ctx, cc):
    """Declare the step that needs no OpenSSL. Return two directories: (configured, include)."""
    configured = ctx.actions.declare_directory(_place(ctx) + "build/configured")
    include = ctx.actions.declare_directory(_place(ctx) + "include/python3.11")
    stages = [
        stage
        for dep, name in ctx.attr.deps.items()
        for stage in _stages(dep, name)
        # Skip OpenSSL, the dependency with an empty name. With a configure cache, configure checks
        # no libraries, so headers are enough.
        if name and (stage[1].startswith("include/") or not ctx.files.answers)
    ]
    answers = ctx.files.answers[0] if ctx.files.answers else "none"
    _run(
        ctx,
        cc,
        "configure",
        [ctx.file.setup_local, answers, configured, include],
        stages,
        inputs = [ctx.file.setup_local] + ctx.files.answers,
        outputs = [configured, include],
        mnemonic = "CPythonConfigure",
        progress_message = "Configuring CPython",
    )
    return configured, include

def _compile(ctx, cc, configured):
    """Declare the long step: make. Return the files that the layout needs."""
    built = struct(
        binary = ctx.actions.declare_file(_place(ctx) + "build/python3.11"),
        variables = ctx.actions.declare_file(_place(ctx) + "build/variables.py"),
    )
    outputs = [ctx.outputs.library, built.binary, built.variables]

    # compile.pl depends on the command-line format that the pinned clang uses internally.
    compile = [ctx.file._compile] if cc.compiler == "clang-19" and not ctx.attr.separately else []
    _run(
        ctx,
        cc,
        "make",
        [ctx.executable.make, configured] + (compile or ["none"]) + outputs,
        [stage for dep, name in ctx.attr.deps.items() for stage in _stages(dep, name)],
        inputs = [configured] + compile,
        tools = [ctx.executable.make],
        outputs = outputs,
        # make runs two jobs, but the action reserves only one core: a second core would be idle
        # whenever make has only one job to run.
        mnemonic = "CPython",
        progress_message = "Building CPython (one to three minutes)",
    )
    return built

# The interpreter expects the standard library in lib/python3.11 under PYTHONHOME, but the sources
# have it in Lib.
_LAYOUT = """
set -e
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
mkdir "$home/lib"
ln -s "$PWD/$2/Lib" "$home/lib/python3.11"
PYTHONHOME=$home "$1" -BPsS "$3" --binary="$1" --sources="$2" --variables="$4" \
    --stdlib="$5" --python="$6"
"""

def _layout(ctx, built):
    """Declare the short step, which creates two trees."""
    stdlib = ctx.actions.declare_directory(_place(ctx) + "lib/python3.11")
    python = ctx.actions.declare_directory(_place(ctx) + "python")
    args = ctx.actions.args()
    args.add_all([built.binary, ctx.file.configure.dirname, ctx.file._install, built.variables])
    args.add_all([stdlib, python], expand_directories = False)
    ctx.actions.run_shell(
        command = _LAYOUT,
        arguments = [args],
        inputs = depset([built.variables, ctx.file._install] + ctx.files.sources),
        tools = [built.binary],
        outputs = [stdlib, python],
        use_default_shell_env = True,
        mnemonic = "CPythonLayout",
        progress_message = "Installing CPython",
    )
    return struct(stdlib = stdlib, python = python)

def _cpython_impl(ctx):
    cc = find_cc_toolchain(ctx)
    configured, include = _configure(ctx, cc)
    trees = _layout(ctx, _compile(ctx, cc, configured))
    return [
        DefaultInfo(files = depset([ctx.outputs.library])),
        OutputGroupInfo(
            stdlib = depset([trees.stdlib]),
            configured = depset([configured]),
            include = depset([include]),
            python = depset([trees.python]),
        ),
    ]

cpython = rule(
    doc = """Static CPython.

Output groups: `stdlib` (the contents of lib/python3.11), `include` (of include/python3.11),
`python` (a relocatable interpreter: bin/python3.11 and lib/python3.11) and `configured` (the files
that configure adds to the sources), one directory each.""",
    implementation = _cpython_impl,
    attrs = {
        "answers": attr.label(
            allow_files = True,
            doc = "A cache of configure for the compiler in use; empty if there is none.",
        ),
        "configure": attr.label(allow_single_file = True, mandatory = True),
        "deps": attr.label_keyed_string_dict(
            doc = "The C libraries of stdlib modules, and the name of each for -l.",
            providers = [CcInfo],
        ),
        "library": attr.output(mandatory = True),
        "make": attr.label(executable = True, cfg = "exec", mandatory = True),
        "separately": attr.bool(doc = "Start the compiler for each file, as with other compilers."),
        "setup_local": attr.label(allow_single_file = True, mandatory = True),
        "sources": attr.label(mandatory = True),
        "_build": attr.label(
            default = ":build.sh",
            allow_single_file = True,
            executable = True,
            cfg = "exec",
        ),
        "_compile": attr.label(default = "//third_party/make:compile.pl", allow_single_file = True),
        "_install": attr.label(default = ":install.py", allow_single_file = True),
    },
    toolchains = use_cc_toolchain(),
)
