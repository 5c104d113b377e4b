# SPDX-License-Identifier: Apache-2.0
"""The settings of the static build: compiler options, and the values that CMake would configure."""

# Options for all compilations, even in fastbuild and dbg mode, because an unoptimized libtorch is
# uselessly slow.
COPTS = [
    "-O2",
    "-g0",
    "-w",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility-inlines-hidden",
]

DEFINES = [
    "NDEBUG",
    "_FILE_OFFSET_BITS=64",
    "HAVE_MALLOC_USABLE_SIZE=1",
    "HAVE_MMAP=1",
    "HAVE_SHM_OPEN=1",
    "HAVE_SHM_UNLINK=1",
    "AT_PER_OPERATOR_HEADERS",
    "C10_USE_ABSL_FLAGS",
    "C10_USE_ABSL_LOG",
    "CPUINFO_SUPPORTED_PLATFORM=1",
    "FMT_HEADER_ONLY=1",
    "HAVE_AVX2_CPU_DEFINITION",
    "MINIZ_DISABLE_ZIP_READER_CRC32_CHECKS",
    "ONNX_NAMESPACE=onnx_torch",
    "TORCH_STATIC_PYTHON",
    "TORCH_WITHOUT_ONNX",
    "USE_C10D_GLOO",
    "USE_DISTRIBUTED",
    "USE_EXTERNAL_MZCRC",
]

ATEN_CONFIG = {
    "AT_BLAS_F2C": "0",
    "AT_BLAS_USE_CBLAS_DOT": "1",
    "AT_BUILD_WITH_BLAS": "1",
    "AT_BUILD_WITH_LAPACK": "1",
    "AT_MKLDNN_ACL_ENABLED": "0",
    "AT_MKLDNN_ENABLED": "1",
    "AT_MKL_ENABLED": "0",
    "AT_MKL_SEQUENTIAL": "0",
    "AT_NNPACK_ENABLED": "0",
    "AT_PARALLEL_NATIVE": "1",
    "AT_PARALLEL_OPENMP": "0",
    "AT_POCKETFFT_ENABLED": "1",
    "CAFFE2_STATIC_LINK_CUDA_INT": "0",
}

# `torch.__config__.show()` prints these strings.
CAFFE2_MACROS = {
    "BLAS_INFO": "open",
    "CMAKE_BUILD_TYPE": "Release",
    "CAFFE2_FORCE_FALLBACK_CUDA_MPI": "",
    "CAFFE2_HAS_MKL_DNN": "",
    "CAFFE2_HAS_MKL_SGEMM_PACK": "",
    "CAFFE2_PERF_WITH_AVX": "1",
    "CAFFE2_PERF_WITH_AVX2": "1",
    "CAFFE2_USE_ACCELERATE": "",
    "CAFFE2_USE_EIGEN_FOR_BLAS": "",
    "CAFFE2_USE_EXCEPTION_PTR": "1",
    "CAFFE2_USE_ITT": "",
    "CAFFE2_USE_LITE_PROTO": "",
    "CAFFE2_USE_MKL": "",
    "CAFFE2_USE_NVTX": "",
    "CMAKE_CXX_COMPILER": "",
    "CMAKE_CXX_FLAGS": " ".join(COPTS),
    "COMMIT_SHA": "",
    "CUDA_VERSION": "",
    "CUDNN_VERSION": "",
    "LAPACK_INFO": "open",
    "ROCM_VERSION": "",
    "USE_CUDA": "OFF",
    "USE_CUDNN": "OFF",
    "USE_CUSPARSELT": "OFF",
    "USE_GFLAGS": "OFF",
    "USE_GLOG": "OFF",
    "USE_GLOO": "ON",
    "USE_MKLDNN": "ON",
    "USE_MPI": "OFF",
    "USE_NCCL": "OFF",
    "USE_NNPACK": "OFF",
    "USE_OPENMP": "OFF",
    "USE_ROCM": "OFF",
    "USE_ROCM_KERNEL_ASSERT": "OFF",
}

def version_macros(version):
    """Return the macros that torch/csrc/api/include/torch/version.h defines."""
    major, minor, patch = version.split(".")
    return {
        "TORCH_VERSION_MAJOR": major,
        "TORCH_VERSION_MINOR": minor,
        "TORCH_VERSION_PATCH": patch,
    }
