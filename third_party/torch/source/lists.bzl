# SPDX-License-Identifier: Apache-2.0
"""The files that the static build compiles, and those that it compiles alone, with the reasons.

Upstream's own lists (build_variables.bzl) are loaded from the release. torch_source.BUILD repeats
the file patterns of upstream's CMake files. This file lists all others. Two things differ between
releases: the shards of the generated files, and the files that cannot share a unit.
"""

# Files that `torchgen.gen` generates. Each is compiled alone, because it contains hundreds of
# functions.
ATEN_GENERATED = [
    "ATen/CompositeViewCopyKernels.cpp",
    "ATen/Functions.cpp",
    "ATen/Operators_0.cpp",
    "ATen/Operators_1.cpp",
    "ATen/Operators_2.cpp",
    "ATen/Operators_3.cpp",
    "ATen/Operators_4.cpp",
    "ATen/RegisterBackendSelect.cpp",
    "ATen/RegisterCPU.cpp",
    "ATen/RegisterCompositeExplicitAutograd.cpp",
    "ATen/RegisterCompositeExplicitAutogradNonFunctional.cpp",
    "ATen/RegisterCompositeImplicitAutograd.cpp",
    "ATen/RegisterCompositeImplicitAutogradNestedTensor.cpp",
    "ATen/RegisterFunctionalization_0.cpp",
    "ATen/RegisterFunctionalization_1.cpp",
    "ATen/RegisterFunctionalization_2.cpp",
    "ATen/RegisterFunctionalization_3.cpp",
    "ATen/RegisterMeta.cpp",
    "ATen/RegisterMkldnnCPU.cpp",
    "ATen/RegisterNestedTensorCPU.cpp",
    "ATen/RegisterNestedTensorMeta.cpp",
    "ATen/RegisterQuantizedCPU.cpp",
    "ATen/RegisterQuantizedMeta.cpp",
    "ATen/RegisterSchema.cpp",
    "ATen/RegisterSparseCPU.cpp",
    "ATen/RegisterSparseCsrCPU.cpp",
    "ATen/RegisterSparseCsrMeta.cpp",
    "ATen/RegisterSparseMeta.cpp",
    "ATen/RegisterZeroTensor.cpp",
    "ATen/UfuncCPU_add.cpp",
    "ATen/core/ATenOpList.cpp",
    "ATen/core/TensorMethods.cpp",
    "torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.cpp",
]

# Generated files that, like those in native/cpu, are compiled once for each CPU capability.
ATEN_GENERATED_KERNELS = ["ATen/UfuncCPUKernel_add.cpp"]

# Files that `tools.setup_helpers.generate_code` generates.
AUTOGRAD_GENERATED = [
    "torch/csrc/autograd/generated/ADInplaceOrViewType_0.cpp",
    "torch/csrc/autograd/generated/ADInplaceOrViewType_1.cpp",
    "torch/csrc/autograd/generated/Functions.cpp",
    "torch/csrc/autograd/generated/TraceType_0.cpp",
    "torch/csrc/autograd/generated/TraceType_1.cpp",
    "torch/csrc/autograd/generated/TraceType_2.cpp",
    "torch/csrc/autograd/generated/TraceType_3.cpp",
    "torch/csrc/autograd/generated/TraceType_4.cpp",
    "torch/csrc/autograd/generated/VariableType_0.cpp",
    "torch/csrc/autograd/generated/VariableType_1.cpp",
    "torch/csrc/autograd/generated/VariableType_2.cpp",
    "torch/csrc/autograd/generated/VariableType_3.cpp",
    "torch/csrc/autograd/generated/VariableType_4.cpp",
    "torch/csrc/autograd/generated/ViewFuncs.cpp",
    "torch/csrc/lazy/generated/LazyNativeFunctions.cpp",
    "torch/csrc/lazy/generated/RegisterAutogradLazy.cpp",
    "torch/csrc/lazy/generated/RegisterLazy.cpp",
]

# Files of the Python bindings that `tools.setup_helpers.generate_code` generates.
PYTHON_GENERATED = [
    "torch/csrc/autograd/generated/python_enum_tag.cpp",
    "torch/csrc/autograd/generated/python_fft_functions.cpp",
    "torch/csrc/autograd/generated/python_functions_0.cpp",
    "torch/csrc/autograd/generated/python_functions_1.cpp",
    "torch/csrc/autograd/generated/python_functions_2.cpp",
    "torch/csrc/autograd/generated/python_functions_3.cpp",
    "torch/csrc/autograd/generated/python_functions_4.cpp",
    "torch/csrc/autograd/generated/python_linalg_functions.cpp",
    "torch/csrc/autograd/generated/python_nested_functions.cpp",
    "torch/csrc/autograd/generated/python_nn_functions.cpp",
    "torch/csrc/autograd/generated/python_return_types.cpp",
    "torch/csrc/autograd/generated/python_sparse_functions.cpp",
    "torch/csrc/autograd/generated/python_special_functions.cpp",
    "torch/csrc/autograd/generated/python_torch_functions_0.cpp",
    "torch/csrc/autograd/generated/python_torch_functions_1.cpp",
    "torch/csrc/autograd/generated/python_torch_functions_2.cpp",
    "torch/csrc/autograd/generated/python_variable_methods.cpp",
]

# Files in upstream's lists that need ONNX's protobufs and that onnx_absent.cpp replaces.
_WITHOUT_ONNX = [
    "torch/csrc/jit/serialization/onnx.cpp",
    "torch/csrc/onnx/init.cpp",
]

# Upstream's CMake patterns for ATen's files, except for kernels that are compiled once for each CPU
# capability.
ATEN_PATTERNS = [
    "aten/src/ATen/*.cpp",
    "aten/src/ATen/core/**/*.cpp",
    "aten/src/ATen/cpu/*.cpp",
    "aten/src/ATen/detail/*.cpp",
    "aten/src/ATen/functorch/*.cpp",
    "aten/src/ATen/metal/*.cpp",
    "aten/src/ATen/native/*.cpp",
    "aten/src/ATen/native/ao_sparse/*.cpp",
    "aten/src/ATen/native/ao_sparse/quantized/cpu/*.cpp",
    "aten/src/ATen/native/mkl/*.cpp",
    "aten/src/ATen/native/mkldnn/*.cpp",
    "aten/src/ATen/native/nested/*.cpp",
    "aten/src/ATen/native/quantized/*.cpp",
    "aten/src/ATen/native/quantized/cpu/*.cpp",
    "aten/src/ATen/native/sparse/*.cpp",
    "aten/src/ATen/native/transformers/*.cpp",
    "aten/src/ATen/native/utils/*.cpp",
    "aten/src/ATen/native/xnnpack/*.cpp",
    "aten/src/ATen/nnapi/*.cpp",
    "aten/src/ATen/quantized/**/*.cpp",
    "aten/src/ATen/vulkan/*.cpp",
]

def without_onnx(srcs):
    """Return `srcs` without the files that only export to ONNX."""
    return [
        src
        for src in srcs
        if src not in _WITHOUT_ONNX and not src.startswith("torch/csrc/jit/passes/onnx")
    ]

def unique(*lists):
    """Return the files in all lists, without duplicates: upstream's lists overlap."""
    return {src: None for srcs in lists for src in srcs}.keys()

# Files that are compiled alone instead of in a unit, a source file that includes several others.
# Two files cannot share a unit if both define the same name, or if one declares an overload that
# the compiler would prefer for a call in the other.
ALONE = [
    # In a unity build, calls to a function in this file's anonymous namespace would resolve to an
    # overload that another file declares.
    "torch/csrc/jit/passes/fixup_trace_scope_blocks.cpp",
    # Files that define a macro CHECK, which conflicts with Abseil's CHECK in headers that other
    # files include.
    "torch/csrc/dynamo/extra_state.cpp",
    "torch/csrc/dynamo/framelocals_mapping.cpp",
    # Files with macros or file-level `using` declarations that affect later files in a unit.
    "aten/src/ATen/ParallelThreadPoolNative.cpp",
    "aten/src/ATen/core/register_symbols.cpp",
    "aten/src/ATen/functorch/BatchRulesBinaryOps.cpp",
    "aten/src/ATen/native/BlasKernel.cpp",
    "aten/src/ATen/native/ConvolutionMM3d.cpp",
    "aten/src/ATen/native/Distributions.cpp",
    "aten/src/ATen/native/LossNLL2d.cpp",
    "aten/src/ATen/native/RangeFactories.cpp",
    "aten/src/ATen/native/SobolEngineOps.cpp",
    "aten/src/ATen/native/SobolEngineOpsUtils.cpp",
    "aten/src/ATen/native/TensorCompare.cpp",
    "aten/src/ATen/native/TensorConversions.cpp",
    "aten/src/ATen/native/TensorFactories.cpp",
    "aten/src/ATen/native/TensorProperties.cpp",
    "aten/src/ATen/native/TensorShape.cpp",
    "aten/src/ATen/native/TensorTransformations.cpp",
    "aten/src/ATen/native/group_norm.cpp",
    "aten/src/ATen/native/layer_norm.cpp",
    "aten/src/ATen/native/quantized/AffineQuantizerBase.cpp",
    "aten/src/ATen/native/quantized/cpu/AveragePool3d.cpp",
    "aten/src/ATen/native/quantized/qconv_unpack.cpp",
    "aten/src/ATen/native/quantized/cpu/qconv_prepack.cpp",
    "aten/src/ATen/native/quantized/cpu/qmul.cpp",
    "aten/src/ATen/native/sparse/SparseBinaryOpIntersectionKernel.cpp",
    "aten/src/ATen/native/sparse/SparseCsrTensorMath.cpp",
    "torch/csrc/autograd/python_legacy_variable.cpp",
    "torch/csrc/distributed/c10d/logger.cpp",
    "torch/csrc/distributed/c10d/reducer.cpp",
    "torch/csrc/inductor/aoti_runner/model_container_runner.cpp",
    "torch/csrc/inductor/aoti_torch/shim_common.cpp",
    "torch/csrc/inductor/aoti_torch/shim_mkldnn.cpp",
    "torch/csrc/jit/backends/backend_detail.cpp",
    "torch/csrc/jit/frontend/ir_emitter.cpp",
    "torch/csrc/jit/frontend/tracer.cpp",
    "torch/csrc/jit/runtime/register_ops_utils.cpp",
    # This file's constructors must run between those of two others, as in upstream's build.
    "torch/csrc/jit/runtime/register_prim_ops_fulljit.cpp",
    "torch/csrc/jit/runtime/register_special_ops.cpp",
    "torch/csrc/jit/runtime/static/fusion.cpp",
    "torch/csrc/jit/runtime/static/impl.cpp",
    "torch/csrc/jit/runtime/symbolic_shape_registry.cpp",
    "torch/csrc/jit/serialization/export_module.cpp",
    "torch/csrc/jit/serialization/flatbuffer_serializer.cpp",
    "torch/csrc/jit/tensorexpr/external_functions.cpp",
    "torch/csrc/jit/tensorexpr/operators/quantization.cpp",
    "torch/csrc/utils/tensor_numpy.cpp",
    # Files that include torch/csrc/jit/runtime/graph_iterator.h, which has no include guard, so a
    # unit may contain only one such file.
    "torch/csrc/jit/passes/add_if_then_else.cpp",
    "torch/csrc/jit/passes/batch_mm.cpp",
    "torch/csrc/jit/passes/concat_opt.cpp",
    # Files that are large enough to be a unit of their own. In a shared unit, they would only
    # increase the time and memory of its compilation.
    "torch/csrc/autograd/FunctionsManual.cpp",
    "torch/csrc/distributed/c10d/init.cpp",
    "torch/csrc/dynamo/guards.cpp",
    "torch/csrc/jit/python/init.cpp",
    "torch/csrc/jit/python/script_init.cpp",
    "torch/csrc/jit/runtime/register_prim_ops.cpp",
    "torch/csrc/jit/tensorexpr/tensorexpr_init.cpp",
    "torch/csrc/Module.cpp",
]

# The file of `aten` whose constructors run before all others: they register the classes of packed
# weights, which operators in other files take as arguments.
ATEN_FIRST = ["aten/src/ATen/native/quantized/library.cpp"]

# Files of `torch` whose constructors run before all others. TorchScript tries overloads in the
# order of registration, and the dispatcher's operators must precede TorchScript's own.
FIRST = ["torch/csrc/jit/runtime/register_c10_ops.cpp"]

# Python packages that `import torch` does not import. They make up half of torch's Python code.
COLD = [
    "torch/_dynamo",
    "torch/_export",
    "torch/_functorch/_aot_autograd",
    "torch/_inductor",
    "torch/_numpy",
    "torch/ao/ns",
    "torch/distributed/_shard",
    "torch/distributed/_tools",
    "torch/distributed/checkpoint",
    "torch/distributed/elastic",
    "torch/distributed/fsdp",
    "torch/distributed/pipelining",
    "torch/distributed/tensor",
    "torch/onnx",
    "torch/testing",
    "torch/utils/hipify",
]

# Headers that Inductor's kernels and models include. Their code is inline or calls C functions that
# the interpreter exports, so it needs no libtorch.
INDUCTOR_HEADERS = [
    "aten/src/ATen/AccumulateType.h",
    "aten/src/ATen/NumericUtils.h",
    "aten/src/ATen/core/Array.h",
    "aten/src/ATen/core/PhiloxRNGEngine.h",
    "aten/src/ATen/cpu/vec/**/*.h",
    "aten/src/ATen/jiterator_macros.h",
    "aten/src/ATen/native/Math.h",
    "aten/src/ATen/native/cpu/zmath.h",
    "aten/src/ATen/native/quantized/AffineQuantizerBase.h",
    "c10/core/DeviceType.h",
    "c10/core/ScalarType.h",
    "c10/macros/*.h",
    "c10/util/*.h",
    "torch/csrc/inductor/aoti_runtime/*.h",
    "torch/csrc/inductor/aoti_torch/c/*.h",
    "torch/csrc/inductor/aoti_torch/generated/*.h",
]

# Headers that the patterns above match but that are for other devices and processors.
NO_INDUCTOR_HEADERS = [
    "aten/src/ATen/cpu/vec/sve/*",
    "aten/src/ATen/cpu/vec/vec256/vsx/*",
    "aten/src/ATen/cpu/vec/vec256/zarch/*",
    "torch/csrc/inductor/aoti_runtime/sycl_runtime_wrappers.h",
    "torch/csrc/inductor/aoti_runtime/utils_cuda.h",
    "torch/csrc/inductor/aoti_torch/generated/c_shim_cuda.h",
    "torch/csrc/inductor/aoti_torch/generated/c_shim_xpu.h",
]

# Upstream's own tests, and the files that they import or open.
TEST_FILES = [
    "test/autograd/*.py",
    "test/cpp/jit/**",
    "test/distributed/checkpoint/test_fsspec.py",
    "test/distributed/elastic/multiprocessing/**",
    "test/error_messages/*.py",
    "test/expect/*",
    "test/fx/*.py",
    "test/jit/**",
    "test/minioptest_failures_dict.json",
    "test/optim/*.py",
    "test/test_*.py",
]

NO_TEST_FILES = [
    # pytest would load conftest.py, which needs plugins of upstream's own test runner.
    "test/conftest.py",
    "test/cpp/jit/*.cpp",
]
