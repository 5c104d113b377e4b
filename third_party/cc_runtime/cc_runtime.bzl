# SPDX-License-Identifier: Apache-2.0
"""`cc_runtime`: the host C++ compiler's shared libraries, which a PAR contains for its wheels.

Native code in wheels needs a libstdc++ and a libgcc_s that are at least as new as the code, and a
machine without a compiler may have neither. The rule copies both from the compiler that builds the
program.
"""

_LIBRARIES = ["libstdc++.so.6", "libgcc_s.so.1"]

# Paths where distributions install the licences of GCC's runtime and of the C library.
_LICENCES = [
    "/usr/share/doc/libstdc++6/copyright",
    "/usr/share/doc/libc6/copyright",
    "/usr/share/licenses/libstdc++",
    "/usr/share/licenses/libgcc",
    "/usr/share/licenses/gcc-libs",
    "/usr/share/licenses/glibc",
]

# The text to pack into a PAR if the licence files are missing on the machine that builds it.
_STATEMENT = """\
This program has parts of GCC's runtime (libgcc, libstdc++), under GPL-3.0-or-later WITH
GCC-exception-3.1, and of the GNU C library, under LGPL-2.1-or-later. The machine that built it has
no copy of these licences; https://spdx.org/licenses has their texts.
"""

def _compiler(rctx):
    for name in [rctx.getenv("CC"), "gcc", "cc", "clang"]:
        path = rctx.which(name) if name and "/" not in name else name
        if path:
            return str(path)
    fail("third_party/cc_runtime: no C compiler: CC is not set and gcc, cc and clang are not on PATH. " +
         "Install gcc and g++, then build again")

def _library(rctx, compiler, name):
    result = rctx.execute([compiler, "-print-file-name=" + name])
    path = result.stdout.strip()

    # If the compiler does not find the library, it prints the name without a directory.
    if result.return_code or "/" not in path or not rctx.path(path).exists:
        fail("third_party/cc_runtime: {} -print-file-name={} answers '{}'. {}".format(
            compiler,
            name,
            path or result.stderr.strip(),
            "Install the compiler's C++ runtime (g++), then build again",
        ))
    return rctx.path(path).realpath

def _keep_licences(rctx):
    """Copy the machine's licence texts to texts/, or write a statement that names the licences."""
    paths = [rctx.path(name) for name in _LICENCES]
    files = []
    for path in [path for path in paths if path.exists]:
        files += path.readdir() if path.is_dir else [path]
    for file in files:
        rctx.file(
            "texts/{}-{}".format(file.dirname.basename, file.basename),
            rctx.read(file),
            executable = False,
        )
    if not files:
        rctx.file("texts/statement.txt", _STATEMENT, executable = False)

def _cc_runtime_impl(rctx):
    compiler = _compiler(rctx)
    versions = {}
    for name in _LIBRARIES:
        source = _library(rctx, compiler, name)
        copy = rctx.execute(["cp", "-L", str(source), name])
        if copy.return_code:
            fail("third_party/cc_runtime: cannot copy {}: {}".format(source, copy.stderr.strip()))
        versions[name] = source.basename
    rctx.file("versions.json", json.encode_indent(versions) + "\n")
    _keep_licences(rctx)
    rctx.file("BUILD.bazel", """\
load("@torch_google//third_party/licences:licences.bzl", "licence_files")

licence_files(
    name = "licences",
    srcs = glob(["texts/*"]),
    project = "cc_runtime",
    visibility = ["//visibility:public"],
)

filegroup(
    name = "libs",
    srcs = {libraries},
    visibility = ["//visibility:public"],
)

exports_files({libraries} + ["versions.json"])
""".format(libraries = json.encode(_LIBRARIES)))

_cc_runtime_repository = repository_rule(
    implementation = _cc_runtime_impl,
    environ = ["CC"],
    # Run the rule again whenever the Bazel server starts, because the compiler may have changed.
    local = True,
)

cc_runtime = module_extension(
    doc = "The repository @cc_runtime: libstdc++.so.6, libgcc_s.so.1 and versions.json.",
    implementation = lambda mctx: _cc_runtime_repository(name = "cc_runtime"),
)
