# SPDX-License-Identifier: Apache-2.0
"""function_symbols: a linked executable whose symbol table names code only.

Stack traces of crashes look up functions in this table. Nothing reads its other symbols, mostly
vtables and type information, which take 27 MB in a program that contains torch.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain", "use_cpp_toolchain")

# nm prints an address, a letter and a name; the letters t, T, w, W and i are code. objcopy selects
# symbols by name, so a variable with the name of a function is kept.
_COMMAND = """
set -eu
names="$4.names"
"$1" "$3" | awk '
  NF == 3 && $2 ~ /^[tTwWi]$/ { functions[$3] = 1 }
  NF == 3 && $2 !~ /^[tTwWi]$/ { others[$3] = 1 }
  END { for (name in others) if (!(name in functions)) print name }
' > "$names"
"$2" --strip-symbols="$names" "$3" "$4"
rm "$names"
"""

def _function_symbols_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    output = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.run_shell(
        command = _COMMAND,
        arguments = [
            toolchain.nm_executable,
            toolchain.objcopy_executable,
            ctx.file.linked.path,
            output.path,
        ],
        inputs = [ctx.file.linked],
        outputs = [output],
        tools = toolchain.all_files,
        mnemonic = "FunctionSymbols",
        progress_message = "Stripping data symbols from %{label}",
    )
    return [DefaultInfo(
        executable = output,
        runfiles = ctx.attr.linked[DefaultInfo].default_runfiles,
    )]

function_symbols = rule(
    doc = "The executable `linked`, without the symbols of data.",
    implementation = _function_symbols_impl,
    attrs = {
        "linked": attr.label(
            allow_single_file = True,
            mandatory = True,
        ),
    },
    executable = True,
    toolchains = use_cpp_toolchain(),
)
