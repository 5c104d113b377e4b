# SPDX-License-Identifier: Apache-2.0
"""`openssl_libraries`: libcrypto.a and libssl.a, built with OpenSSL's Configure and GNU make."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")

def _openssl_libraries_impl(ctx):
    cc = find_cc_toolchain(ctx)
    include = ctx.actions.declare_directory(ctx.attr.include)

    # compile.pl depends on the command-line format that the pinned clang uses internally.
    together = not ctx.attr.separately and cc.compiler == "clang-19"
    ctx.actions.run(
        executable = ctx.executable._build,
        arguments = [
            ctx.file.configure.dirname,
            ctx.executable.make.path,
            cc.compiler_executable,
            cc.ar_executable,
            ctx.outputs.crypto.path,
            ctx.outputs.ssl.path,
            include.path,
            ctx.file._compile.path if together else "none",
        ],
        inputs = depset(
            ctx.files.sources + ([ctx.file._compile] if together else []),
            transitive = [cc.all_files],
        ),
        tools = [ctx.executable.make],
        outputs = [ctx.outputs.crypto, ctx.outputs.ssl, include],
        use_default_shell_env = True,
        # make runs two jobs, but the action reserves only one core: a second core would be idle
        # while Configure runs.
        mnemonic = "OpenSSL",
        progress_message = "Building OpenSSL (about a minute)",
    )
    return [DefaultInfo(files = depset([ctx.outputs.crypto, ctx.outputs.ssl, include]))] + [
        OutputGroupInfo(include = depset([include])),
    ]

openssl_libraries = rule(
    implementation = _openssl_libraries_impl,
    attrs = {
        "configure": attr.label(allow_single_file = True, mandatory = True),
        "crypto": attr.output(mandatory = True),
        "include": attr.string(default = "include", doc = "The name of the folder of headers."),
        "make": attr.label(executable = True, cfg = "exec", mandatory = True),
        "separately": attr.bool(doc = "Start the compiler for each file, with any compiler."),
        "sources": attr.label(mandatory = True),
        "ssl": attr.output(mandatory = True),
        "_build": attr.label(
            default = ":build.sh",
            allow_single_file = True,
            executable = True,
            cfg = "exec",
        ),
        "_compile": attr.label(default = "//third_party/make:compile.pl", allow_single_file = True),
    },
    toolchains = use_cc_toolchain(),
)
