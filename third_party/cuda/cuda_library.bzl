# SPDX-License-Identifier: Apache-2.0
"""cuda_library: `.cu` files as a C++ library, in the steps that `clang -x cuda` would take.

    kernel.cu  --clang, once for each GPU-->  PTX  --ptxas-->  cubin
    cubins, PTX of the newest GPU  --make_fatbin-->  fat binary
    kernel.cu, fat binary  --clang-->  object file

Clang's own driver would start NVIDIA's program `fatbinary`, which no CUDA 12 wheel contains.
"""

load("@rules_cc//cc:defs.bzl", "CcInfo", "cc_common")
load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")
load(":archs.bzl", "ARCHS", "arch_problem", "ptx_arch")

# The flags of the C++ toolchain that also apply to kernels. They make outputs independent of the
# build directory, and objects suitable for linking into a shared library.
_FLAGS = [
    "-std=c++17",
    "-O2",
    "-g0",
    "-fPIC",
    "-Wall",
    # clang 19 fully supports CUDA up to 12.5. README.md explains why it is used with CUDA 12.9.
    "-Wno-unknown-cuda-version",
    "-ffile-compilation-dir=.",
    "-Wno-builtin-macro-redefined",
    "-D__DATE__=\"redacted\"",
    "-D__TIMESTAMP__=\"redacted\"",
    "-D__TIME__=\"redacted\"",
]

def _arguments(ctx, context, archs):
    """Return the arguments of all compilations."""
    args = ctx.actions.args()
    args.add_all(["-x", "cuda"])
    args.add(ctx.file._cuda_header.dirname.removesuffix("/include"), format = "--cuda-path=%s")
    args.add_all(_FLAGS)
    args.add(", ".join(archs), format = "-DTORCH_GOOGLE_CUDA_ARCHS=\"%s\"")
    args.add_all(context.defines, format_each = "-D%s")
    root = ctx.label.workspace_root
    for folder in [root or ".", ctx.bin_dir.path + ("/" + root if root else "")]:
        args.add("-iquote", folder)
    args.add_all(context.quote_includes, before_each = "-iquote")
    args.add_all(context.includes, before_each = "-I")
    args.add_all(
        depset(transitive = [context.system_includes, context.external_includes]),
        before_each = "-isystem",
    )
    args.add("-idirafter", ctx.file._empty_header.dirname)
    args.add_all(ctx.attr.copts)
    return args

def _device_images(ctx, args, inputs, source, archs):
    """Return {arch: PTX} and {arch: cubin} of one source."""
    ptx, cubins = {}, {}
    for arch in archs:
        stem = "%s/%s.%s" % (ctx.label.name, source.basename.removesuffix(".cu"), arch)
        ptx[arch] = ctx.actions.declare_file(stem + ".ptx")
        cubins[arch] = ctx.actions.declare_file(stem + ".cubin")
        device = ctx.actions.args()
        device.add("--cuda-device-only")
        device.add(arch, format = "--cuda-gpu-arch=%s")
        device.add_all(["-S", source, "-o", ptx[arch]])
        _clang(ctx, [args, device], inputs, ptx[arch], "for " + arch)
        assembler = ctx.actions.args()
        assembler.add_all(["-m64", "-O3", "--gpu-name", arch])
        assembler.add_all(["--output-file", cubins[arch], ptx[arch]])
        ctx.actions.run(
            executable = ctx.file._ptxas,
            arguments = [assembler],
            inputs = [ptx[arch]],
            outputs = [cubins[arch]],
            mnemonic = "CudaAssemble",
            progress_message = "Assembling %{output}",
        )
    return ptx, cubins

def _clang(ctx, arguments, inputs, output, purpose):
    ctx.actions.run(
        executable = ctx.file._clang,
        arguments = arguments,
        inputs = inputs,
        outputs = [output],
        mnemonic = "CudaCompile",
        progress_message = "Compiling %s %s" % (output.short_path, purpose),
    )

def _fat_binary(ctx, source, ptx, cubins):
    output = ctx.actions.declare_file("%s/%s.fatbin" % (
        ctx.label.name,
        source.basename.removesuffix(".cu"),
    ))
    args = ctx.actions.args()
    args.add(output)

    # NVIDIA's tools print this path as the name of the source.
    args.add(source.short_path)
    for arch, cubin in cubins.items():
        args.add(cubin, format = arch.removeprefix("sm_") + "=%s")
    images = cubins.values()
    newest = ptx_arch(ptx)
    if newest:
        args.add(ptx[newest], format = newest.removeprefix("sm_") + "=%s")
        images = images + [ptx[newest]]
    ctx.actions.run(
        executable = ctx.executable._make_fatbin,
        arguments = [args],
        inputs = images,
        outputs = [output],
        mnemonic = "CudaFatBinary",
        progress_message = "Joining the images of %{output}",
    )
    return output

def _object(ctx, args, inputs, source, fatbin):
    output = ctx.actions.declare_file("%s/%s.o" % (
        ctx.label.name,
        source.basename.removesuffix(".cu"),
    ))
    host = ctx.actions.args()
    host.add("--cuda-host-only")
    host.add_all(["-Xclang", "-fcuda-include-gpubinary", "-Xclang", fatbin])
    host.add_all(["-c", source, "-o", output])
    _clang(ctx, [args, host], depset([fatbin], transitive = [inputs]), output, "for the host")
    return output

def _cuda_library_impl(ctx):
    problem = arch_problem(ctx.attr.archs)
    if problem:
        fail("%s: %s" % (ctx.label, problem))
    archs = [arch for arch in ARCHS if arch in ctx.attr.archs]
    deps = [dep[CcInfo] for dep in ctx.attr.deps]
    headers = cc_common.create_compilation_context(headers = depset(ctx.files.hdrs))
    compiled_with = cc_common.merge_compilation_contexts(
        compilation_contexts = [headers] + [dep.compilation_context for dep in deps],
    )
    args = _arguments(ctx, compiled_with, archs)
    inputs = depset(
        ctx.files.srcs + ctx.files.hdrs + [ctx.file._empty_header],
        transitive = [
            compiled_with.headers,
            ctx.attr._clang_files[DefaultInfo].files,
            ctx.attr._cuda_files[DefaultInfo].files,
        ],
    )
    all_ptx, all_cubins, fatbins, objects = [], [], [], []
    for source in ctx.files.srcs:
        ptx, cubins = _device_images(ctx, args, inputs, source, archs)
        fatbin = _fat_binary(ctx, source, ptx, cubins)
        objects.append(_object(ctx, args, inputs, source, fatbin))
        fatbins.append(fatbin)
        all_ptx += ptx.values()
        all_cubins += cubins.values()
    toolchain = find_cc_toolchain(ctx)
    linking_context, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        feature_configuration = cc_common.configure_features(
            ctx = ctx,
            cc_toolchain = toolchain,
            requested_features = ctx.features,
            unsupported_features = ctx.disabled_features,
        ),
        cc_toolchain = toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(
            objects = depset(objects),
            pic_objects = depset(objects),
        ),
        linking_contexts = [dep.linking_context for dep in deps],
        # A static constructor registers the fat binary. Otherwise, the linker would drop the object
        # file, because nothing refers to it.
        alwayslink = True,
        disallow_dynamic_library = True,
    )
    return [
        CcInfo(compilation_context = compiled_with, linking_context = linking_context),
        DefaultInfo(files = depset(objects)),
        OutputGroupInfo(
            cubins = depset(all_cubins),
            fatbins = depset(fatbins),
            ptx = depset(all_ptx),
        ),
    ]

cuda_library = rule(
    implementation = _cuda_library_impl,
    doc = "A C++ library with CUDA kernels.",
    attrs = {
        "archs": attr.string_list(
            doc = "GPUs to compile for. PTX of the newest one is added, for GPUs after it.",
            mandatory = True,
        ),
        "copts": attr.string_list(doc = "Options for clang, for the device and for the host."),
        "deps": attr.label_list(
            doc = "Libraries, including the CUDA runtime.",
            providers = [CcInfo],
        ),
        "hdrs": attr.label_list(allow_files = [".h", ".hpp", ".cuh", ".inc"]),
        "srcs": attr.label_list(allow_files = [".cu"], mandatory = True),
        "_clang": attr.label(default = "@clang//:bin/clang++", allow_single_file = True),
        "_clang_files": attr.label(default = "@clang//:compiler"),
        "_cuda_files": attr.label(default = "@cuda//:compiler_files"),
        "_cuda_header": attr.label(
            default = "@cuda//:toolkit/include/cuda.h",
            allow_single_file = True,
        ),
        "_empty_header": attr.label(
            default = "//third_party/cuda:clang_headers/curand_mtgp32_kernel.h",
            allow_single_file = True,
        ),
        "_make_fatbin": attr.label(
            default = "//third_party/cuda:make_fatbin",
            executable = True,
            cfg = "exec",
        ),
        "_ptxas": attr.label(default = "@cuda//:toolkit/bin/ptxas", allow_single_file = True),
    },
    fragments = ["cpp"],
    provides = [CcInfo],
    toolchains = use_cc_toolchain(),
)
