# SPDX-License-Identifier: Apache-2.0
"""`torch_objects`: C++ files compiled several at a time.

Most torch files are small and include the same hundred thousand lines, so compiling several of them
as one unit takes a third of the time. Each chunk is a separate library: an edit of one file
recompiles only its chunk.
"""

load("@rules_cc//cc:defs.bzl", "cc_library")
load(":agreement.bzl", "agreement_test")

# Macros that a file defines to forbid certain includes. They must not affect the next file.
_BETWEEN = ["TORCH_ASSERT_NO_OPERATORS", "TORCH_ASSERT_ONLY_METHOD_OPERATORS"]

def _unity_source_impl(ctx):
    source = ctx.actions.declare_file(ctx.label.name + ".cpp")
    lines = []
    for member in ctx.files.srcs:
        path = member.short_path.split("/", 2)[2] if member.short_path.startswith("../") else member.short_path
        lines.append('#include "%s"' % path)
        lines += ["#undef " + macro for macro in _BETWEEN]
    ctx.actions.write(source, "\n".join(lines) + "\n")
    return [DefaultInfo(files = depset([source]))]

_unity_source = rule(
    implementation = _unity_source_impl,
    doc = "A file that includes others, in order.",
    attrs = {"srcs": attr.label_list(allow_files = [".cpp", ".cc"], mandatory = True)},
)

def _chunks(srcs, size):
    """Return evenly sized lists of at most `size` files, each from one directory."""
    by_folder = {}
    for src in sorted(srcs):
        by_folder.setdefault(src.rpartition("/")[0], []).append(src)
    chunks = []
    for folder in sorted(by_folder):
        files = by_folder[folder]
        count = -(-len(files) // size)
        each = -(-len(files) // count)
        chunks += [files[i:i + each] for i in range(0, len(files), each)]
    return chunks

def torch_objects(name, srcs, size = 7, alone = [], first = [], **kwargs):
    """A library of `srcs`, compiled in chunks.

    Its constructors run in this order: `first`, files compiled alone, chunks.

    Args:
      name: name of the library. Chunk N is `<name>.<N>`.
      srcs: paths of C and C++ files.
      size: the maximum number of files in a chunk. 1 compiles each file alone.
      first: files of `srcs` that are compiled alone and initialized before the others.
      alone: files of `srcs` that are compiled alone: see lists.bzl for the reasons.
      **kwargs: passed to every cc_library (copts, local_defines, deps).
    """
    by_itself = {src: None for src in srcs if size == 1 or src in alone or src.endswith(".c")}
    kwargs = dict(kwargs, linkstatic = True, alwayslink = True)
    parts = []
    for part, members in {
        name + ".first": first,
        name + ".single": [src for src in by_itself if src not in first],
    }.items():
        if members:
            cc_library(
                name = part,
                srcs = sorted(members),
                visibility = ["//visibility:private"],
                **kwargs
            )
            parts.append(part)
    apart = {src: None for src in first} | by_itself
    for number, members in enumerate(_chunks([src for src in srcs if src not in apart], size)):
        part = "%s.%d" % (name, number)
        _unity_source(name = part + ".source", srcs = members, visibility = ["//visibility:private"])
        cc_library(
            name = part,
            srcs = [part + ".source"],
            textual_hdrs = members,
            visibility = ["//visibility:private"],
            **kwargs
        )
        agreement_test(
            name = part + ".agreement",
            members = members,
            source = part + ".source",
            **kwargs
        )
        parts.append(part)
    native.filegroup(
        name = name + ".files",
        srcs = srcs,
    )
    native.test_suite(
        name = name + ".agreement",
        tests = [part + ".agreement" for part in parts if part[-1].isdigit()],
    )
    cc_library(name = name, deps = parts)
