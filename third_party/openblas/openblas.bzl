# SPDX-License-Identifier: Apache-2.0
"""`openblas_library`: libopenblas.a, built with OpenBLAS's own makefile and //third_party/make."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")

def _openblas_library_impl(ctx):
    cc = find_cc_toolchain(ctx)
    ctx.actions.run(
        executable = ctx.executable._build,
        arguments = [
            ctx.file.makefile.dirname,
            ctx.executable.make.path,
            cc.compiler_executable,
            cc.ar_executable,
            ctx.outputs.library.path,
        ],
        inputs = depset([ctx.file.makefile] + ctx.files.sources, transitive = [cc.all_files]),
        tools = [ctx.executable.make],
        outputs = [ctx.outputs.library],
        use_default_shell_env = True,
        mnemonic = "OpenBLAS",
        progress_message = "Building OpenBLAS (several minutes)",
    )
    return [DefaultInfo(files = depset([ctx.outputs.library]))]

openblas_library = rule(
    implementation = _openblas_library_impl,
    attrs = {
        "library": attr.output(mandatory = True),
        "make": attr.label(executable = True, cfg = "exec", mandatory = True),
        "makefile": attr.label(allow_single_file = True, mandatory = True),
        "sources": attr.label(mandatory = True),
        "_build": attr.label(
            default = ":build.sh",
            allow_single_file = True,
            executable = True,
            cfg = "exec",
        ),
    },
    toolchains = use_cc_toolchain(),
)
