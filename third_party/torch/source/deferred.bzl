# SPDX-License-Identifier: Apache-2.0
"""`deferred_registrations`: static constructors that run on demand instead of before main.

torch registers its operators in about a thousand constructors. They would cost every process half a
second, even if it never imports torch. Here their section is renamed, and `static_init.c` runs them
when `torch._C` is imported. `deferred_library` gives one library its own section: a library that
registers kernels with torch must run its constructors after torch's.
"""

load("@rules_cc//cc:defs.bzl", "CcInfo", "cc_common")
load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")

_SECTION = "torch_init_array"

def _rename(ctx, objcopy, cc, archive, section):
    """Return an archive in which the section of each object is renamed to `section`."""
    output = ctx.actions.declare_file("%s/%s" % (ctx.label.name, archive.short_path.replace("../", "")))
    arguments = ctx.actions.args()
    arguments.add("--rename-section", ".init_array=%s,alloc,load,data,contents" % section)
    arguments.add_all([archive, output])
    ctx.actions.run(
        executable = objcopy,
        arguments = [arguments],
        inputs = depset([archive], transitive = [cc.all_files]),
        outputs = [output],
        mnemonic = "DeferConstructors",
        progress_message = "Deferring the constructors of %s" % archive.short_path,
    )
    return output

def _deferred(ctx, linker_input, section):
    """Return a linker input that has all its constructors in the section `section`."""
    cc = find_cc_toolchain(ctx)
    features = cc_common.configure_features(ctx = ctx, cc_toolchain = cc)
    objcopy = cc.objcopy_executable
    libraries = []
    for library in linker_input.libraries:
        static = library.static_library
        pic = library.pic_static_library
        libraries.append(cc_common.create_library_to_link(
            actions = ctx.actions,
            cc_toolchain = cc,
            feature_configuration = features,
            static_library = _rename(ctx, objcopy, cc, static, section) if static else None,
            pic_static_library = _rename(ctx, objcopy, cc, pic, section) if pic else None,
            alwayslink = library.alwayslink,
        ))
    return cc_common.create_linker_input(
        owner = linker_input.owner,
        libraries = depset(libraries),
        user_link_flags = depset(linker_input.user_link_flags),
    )

def _linked(ctx, linker_inputs):
    # With --gc-sections, the linker would drop the constructors, because only the start and stop
    # symbols of their section refer to them. nostart-stop-gc keeps them.
    kept = cc_common.create_linker_input(
        owner = ctx.label,
        user_link_flags = depset(["-Wl,-z,nostart-stop-gc"]),
    )
    return [CcInfo(linking_context = cc_common.create_linking_context(
        linker_inputs = depset([kept] + linker_inputs),
    ))]

def _deferred_registrations_impl(ctx):
    here = ctx.label.workspace_name
    inputs = ctx.attr.library[CcInfo].linking_context.linker_inputs.to_list()
    ours = [each for each in inputs if each.owner.workspace_name == here]

    # Constructors run in link order, and Bazel links a library before its dependencies. Reverse the
    # libraries, because the constructors of dependencies must run first.
    return _linked(
        ctx,
        [_deferred(ctx, each, _SECTION) for each in reversed(ours)] +
        [each for each in inputs if each.owner.workspace_name != here],
    )

deferred_registrations = rule(
    implementation = _deferred_registrations_impl,
    doc = "The libraries of `library`, with deferred constructors in those of this repository.",
    attrs = {"library": attr.label(mandatory = True, providers = [CcInfo])},
    fragments = ["cpp"],
    toolchains = use_cc_toolchain(),
)

def _deferred_library_impl(ctx):
    return _linked(ctx, [
        _deferred(ctx, each, ctx.attr.section)
        for each in ctx.attr.library[CcInfo].linking_context.linker_inputs.to_list()
        if each.owner == ctx.attr.library.label
    ])

deferred_library = rule(
    implementation = _deferred_library_impl,
    doc = "`library` without its dependencies. Its constructors are in the section `section`.",
    attrs = {
        "library": attr.label(mandatory = True, providers = [CcInfo]),
        "section": attr.string(mandatory = True),
    },
    fragments = ["cpp"],
    toolchains = use_cc_toolchain(),
)
