# SPDX-License-Identifier: Apache-2.0
"""What the rules of this room tell each other."""

ParInfo = provider(
    doc = "The bundles that a program with this target in its deps is made of.",
    fields = {
        "bundles": "depset of structs: name, archive (File, .parlib), directory (File: the " +
                   "same files on disk, the root of its imports)",
    },
)

ParExtensionInfo = provider(
    doc = "C extensions to link into a launcher.",
    fields = {
        "exports": "depset of names, or patterns of them: C functions that shared libraries may take from " +
                   "the launcher",
        "modules": "dict: dotted name it is imported by -> C name of its init function",
        "programs": "dict: name that the launcher may be called by -> C name of its main function",
    },
)

def _collect_bundles_impl(target, ctx):
    if ParInfo in target:
        return []
    deps = getattr(ctx.rule.attr, "deps", [])
    if type(deps) != "list":
        return []
    found = [dep[ParInfo].bundles for dep in deps if ParInfo in dep]
    return [ParInfo(bundles = depset(transitive = found))]

collect_bundles = aspect(
    doc = "Carries ParInfo through rules, such as py_library, that do not know it.",
    implementation = _collect_bundles_impl,
    attr_aspects = ["deps"],
)
