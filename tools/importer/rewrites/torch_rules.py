# SPDX-License-Identifier: Apache-2.0
"""The rewrites of torch: what a program inside one file needs, wherever upstream does it.

After an upgrade that was refused: look at each place that the message names, then change its row.
"""

from __future__ import annotations

import libcst.matchers as m

from tools.importer.rewrites.rule import PATH, Kept, Operation, Rule

_ARGUMENT = m.Arg(value=m.SaveMatchedNode(m.DoNotCare(), PATH), keyword=None, star="")
_UTF_8 = m.MatchIfTrue(lambda text: text.strip("\"'").lower() in ("utf-8", "utf8"))
_ENCODING = m.Arg(keyword=m.Name("encoding"), value=m.SimpleString(value=_UTF_8))
_TEXT = m.SimpleString(value=m.MatchIfTrue(lambda text: text.strip("\"'") in ("r", "rt")))
_MODE = m.Arg(keyword=None, value=_TEXT) | m.Arg(keyword=m.Name("mode"), value=_TEXT)
_AS_TEXT = m.ZeroOrMore(_MODE | _ENCODING)

_OUTSIDE = {
    "torch/_utils_internal*.py": "the seam: it answers where files are",
    "torch/testing/*": "upstream's test harness reads its repository, which no installation has",
    "torch/utils/data/datapipes/gen_pyi.py": "runs when upstream is built",
    "torch/utils/hipify/*": "rewrites a developer's sources on disk",
}

_CACHE = "reads what it just wrote to the compile cache"
_CUDA = "CUTLASS on CUDA only: the pinned build is for the CPU"
_METAL = "Metal only: there is none on the build's platform"
_TRITON = "torch/_inductor/codegen/triton.py"
_SOURCE_KEY = tuple(
    Kept("torch/_inductor/codecache.py", function, "never called: see inductor-source-key.patch")
    for function in ("build_code_hash", "torch_key.get_code_hash")
)
_IN_2_13 = {
    "torch/_dynamo/exc.py": 1,
    "torch/_inductor/codecache.py": 1,
    "torch/_inductor/codegen/cpp_wrapper_cpu.py": 1,
    "torch/_inductor/utils.py": 1,
    "torch/package/package_exporter.py": 1,
    "torch/utils/benchmark/utils/cpp_jit.py": 2,
}

PACKED_RESOURCES = Rule(
    name="packed-resources",
    about="Read text beside the sources through the loader, packed or not",
    scope=("torch/*.py",),
    outside=_OUTSIDE,
    guarded=frozenset(("open", "read_text", "read_bytes", "_read_file", "read_file")),
    target="torch._utils_internal.open_resource",
    operations=(
        Operation("open", m.Call(func=m.Name("open"), args=[_ARGUMENT, _AS_TEXT])),
        Operation(
            "Path.open",
            m.Call(
                func=m.Attribute(value=m.SaveMatchedNode(m.DoNotCare(), PATH), attr=m.Name("open")),
                args=[_AS_TEXT],
            ),
        ),
        Operation(
            "_read_file", m.Call(func=m.Name("_read_file"), args=[_ARGUMENT]), suffix=".read()"
        ),
        Operation(
            "read_text",
            m.Call(
                func=m.Attribute(
                    value=m.SaveMatchedNode(m.DoNotCare(), PATH), attr=m.Name("read_text")
                ),
                args=[_AS_TEXT],
            ),
            suffix=".read()",
        ),
    ),
    kept=(
        *_SOURCE_KEY,
        Kept("torch/_inductor/codecache.py", "write_atomic", "writes: the mode is a variable"),
        Kept("torch/_inductor/codecache.py", "CUTLASSCodeCache.compile", _CACHE),
        Kept(_TRITON, "TritonScheduling.benchmark_codegened_module.load_cache", _CACHE),
        Kept(_TRITON, "TritonScheduling.benchmark_fused_nodes.load_cache", _CACHE),
        Kept(_TRITON, "TritonScheduling.benchmark_combo_kernel.load_cache", _CACHE),
        Kept(
            "torch/_inductor/rocm_multiarch_utils.py",
            "_sanitize_llvm_ir_for_rocm",
            _CACHE,
        ),
        Kept("torch/_inductor/runtime/compile_tasks.py", "_reload_python_module", _CACHE),
        Kept(
            "torch/_inductor/pattern_matcher.py",
            "_serialize_pattern",
            "writes upstream's own sources, by a developer's wish",
        ),
        Kept(
            "torch/sparse/_triton_ops_meta.py",
            "dump",
            "writes upstream's own sources, by a developer's wish",
        ),
        Kept(
            "torch/_inductor/codegen/cutlass/cache.py",
            "get_config_request_key.get_file_hash",
            _CUDA,
        ),
        Kept("torch/_inductor/codegen/cutedsl/_inline_asm.py", "inline_asm_cache_key", _CUDA),
        Kept("torch/_vendor/quack/cache/jit.py", "_hash_source_dir", _CUDA),
        Kept(
            "torch/_inductor/autotune_process.py",
            "CUTLASSBenchmarkRequest.ensure_dll_loaded",
            "opens a library that was just compiled, no file",
        ),
        Kept("torch/utils/_cpp_embed_headers.py", "read_file", _METAL),
        Kept("torch/utils/_cpp_embed_headers.py", "_embed_headers", _METAL),
        Kept(
            "torch/package/package_exporter.py",
            "_read_file",
            "reads users' files too; its call for a file of torch is rewritten",
        ),
        Kept(
            "torch/utils/cpp_extension.py",
            "_check_and_build_extension_h_precompiler_headers.check_pch_signature_in_file",
            "reads what the last build of an extension wrote",
        ),
    ),
    expected={
        "v2.6.0": {
            "torch/_inductor/codecache.py": 1,
            "torch/_inductor/codegen/cpp_wrapper_cpu.py": 1,
            "torch/_inductor/codegen/cpp_wrapper_cpu_array_ref.py": 1,
            "torch/package/package_exporter.py": 1,
            "torch/utils/benchmark/utils/cpp_jit.py": 2,
        },
        "v2.13.0": _IN_2_13,
        "v2.14.1": {**_IN_2_13, "torch/_inductor/codegen/cpp_wrapper_gpu.py": 1},
    },
    header={
        "Id": "Z02, Z12, Z13, Z20",
        "Owner": "packaging",
        "Reason": "build",
        "Upstream": "None yet; remove when the tests pass without it",
        "Extension-point-considered": (
            "None: `open` on paths below `__file__`. Where the seam is asked (`get_file_path_2`), "
            "its answer must be a real file for `open`; this is read-only text"
        ),
        "Test": ",\n  ".join(
            f"third_party/torch/tests/packaging_patches_test.py::{name}"
            for name in (
                "test_aoti_compiles_and_runs",
                "test_aoti_packages_sources",
                "test_benchmark_templates_are_read",
                "test_graph_break_finds_its_registry",
                "test_kernel_template_is_read",
                "test_package_with_a_mocked_module",
            )
        ),
        "Budget": "12",
    },
)

MODULE_LISTING = Rule(
    name="module-listing",
    about="List the modules of a package through the import system, not its directory",
    scope=("torch/*.py",),
    outside=_OUTSIDE,
    guarded=frozenset(("listdir", "scandir", "walk", "fwalk", "glob", "iglob", "iterdir", "rglob")),
    kept=(
        Kept("torch/__init__.py", "_load_dll_libraries", "Windows", most=2),
        Kept("torch/_inductor/cpp_builder.py", "_remove_dir", _CACHE),
        Kept("torch/_inductor/cpp_builder.py", "_find_libcudart_static", "looks in the CUDA kit"),
        Kept("torch/_inductor/cpp_builder.py", "_transform_cuda_paths", "looks in the CUDA kit"),
        Kept("torch/_vendor/quack/cache/jit.py", "_hash_source_dir", _CUDA),
    ),
)

RULES = (PACKED_RESOURCES, MODULE_LISTING)
