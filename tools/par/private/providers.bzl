# SPDX-License-Identifier: Apache-2.0
"""Providers of the rules in //tools/par."""

ParInfo = provider(
    doc = "The bundles that a target contributes to a program that depends on it.",
    fields = {
        "bundles": "depset of structs: name, archive (File, .parlib), directory (File: the " +
                   "same files on disk, an import root), toolkit (`cuda` or empty)",
    },
)

ParPackedInfo = provider(
    doc = "The inputs of a packed program that do not depend on its own code.",
    fields = {
        "bundles": "list of Files: the .parlib of each bundle, in the order of the PAR",
        "doors": "whether the program obeys the PAR_* environment variables",
        "launcher": "File: the interpreter",
    },
)

ParExtensionInfo = provider(
    doc = "C extensions to link into a launcher.",
    fields = {
        "exports": "depset of names or patterns: C functions that the launcher exports to shared libraries",
        "modules": "dict: dotted module name -> C name of its init function",
        "programs": "dict: name that the launcher may be called by -> C name of its main function",
    },
)

def _collect_bundles_impl(target, ctx):
    if ParInfo in target:
        return []
    deps = getattr(ctx.rule.attr, "deps", [])
    if type(deps) != "list":
        return []
    bundles = [dep[ParInfo].bundles for dep in deps if ParInfo in dep]
    return [ParInfo(bundles = depset(transitive = bundles))]

collect_bundles = aspect(
    doc = "Propagates ParInfo through rules that do not know it, such as py_library.",
    implementation = _collect_bundles_impl,
    attr_aspects = ["deps"],
)
