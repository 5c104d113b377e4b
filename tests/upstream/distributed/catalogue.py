# SPDX-License-Identifier: Apache-2.0
"""torch v2.6.0's test files for torch.distributed, by area."""

from __future__ import annotations

import importlib.util
from pathlib import Path

# Environment variables for a process that runs a test file. ONLY_FAILED may name a results file:
# the process then runs only the tests that failed according to that file.
DEVICE = "UPSTREAM_DEVICE"
ONLY_FAILED = "UPSTREAM_ONLY_FAILED"

# tpu comes first, because the CPU runs only the tests that failed on tpu.
DEVICES = ("tpu", "cpu")

# The test files of each area, relative to upstream's folder `test/distributed`.
AREAS = {
    "device_mesh": ("test_device_mesh",),
    "tensor": (
        "_tensor/test_api",
        "_tensor/test_attention",
        "_tensor/test_common_rules",
        "_tensor/test_convolution_ops",
        "_tensor/test_dtensor",
        "_tensor/test_dtensor_compile",
        "_tensor/test_dtensor_ops",
        "_tensor/test_embedding_ops",
        "_tensor/test_experimental_ops",
        "_tensor/test_init",
        "_tensor/test_math_ops",
        "_tensor/test_matrix_ops",
        "_tensor/test_op_strategy",
        "_tensor/test_optimizers",
        "_tensor/test_pointwise_ops",
        "_tensor/test_random_ops",
        "_tensor/test_redistribute",
        "_tensor/test_tensor_ops",
        "_tensor/test_utils",
        "_tensor/test_view_ops",
        "_tensor/test_xla_integration",
    ),
    "tensor_parallel": (
        "tensor/parallel/test_micro_pipeline_tp",
        "tensor/parallel/test_parallelize_api",
        "tensor/parallel/test_tp_examples",
        "tensor/parallel/test_tp_random_state",
        "tensor/parallel/test_tp_style",
    ),
    "fsdp2": (
        "_composable/fsdp/test_fully_shard_autograd",
        "_composable/fsdp/test_fully_shard_clip_grad_norm_",
        "_composable/fsdp/test_fully_shard_comm",
        "_composable/fsdp/test_fully_shard_compile",
        "_composable/fsdp/test_fully_shard_extensions",
        "_composable/fsdp/test_fully_shard_frozen",
        "_composable/fsdp/test_fully_shard_grad_scaler",
        "_composable/fsdp/test_fully_shard_init",
        "_composable/fsdp/test_fully_shard_logging",
        "_composable/fsdp/test_fully_shard_memory",
        "_composable/fsdp/test_fully_shard_mixed_precision",
        "_composable/fsdp/test_fully_shard_overlap",
        "_composable/fsdp/test_fully_shard_state",
        "_composable/fsdp/test_fully_shard_state_dict",
        "_composable/fsdp/test_fully_shard_training",
    ),
    "checkpoint": (
        "checkpoint/test_checkpoint",
        "checkpoint/test_compatibility",
        "checkpoint/test_dedup_tensors",
        "checkpoint/test_dtensor_checkpoint",
        "checkpoint/test_dtensor_resharding",
        "checkpoint/test_file_system_checkpoint",
        "checkpoint/test_file_system_checkpoint_cpu",
        "checkpoint/test_format_utils",
        "checkpoint/test_fsdp_model_state",
        "checkpoint/test_fsdp_optim_state",
        "checkpoint/test_fsdp_tp_checkpoint_conversion",
        "checkpoint/test_fsspec",
        "checkpoint/test_hsdp_checkpoint",
        "checkpoint/test_nested_dict",
        "checkpoint/test_planner",
        "checkpoint/test_save_load_api",
        "checkpoint/test_state_dict",
        "checkpoint/test_state_dict_utils",
        "checkpoint/test_tp_checkpoint",
        "checkpoint/test_traverse",
        "checkpoint/test_utils",
    ),
    "c10d": ("test_c10d_common",),
    "pipelining": (
        "pipelining/test_backward",
        "pipelining/test_microbatch",
        "pipelining/test_pipe",
        "pipelining/test_schedule",
        "pipelining/test_schedule_multiproc",
        "pipelining/test_stage",
        "pipelining/test_transformer",
        "pipelining/test_unflatten",
    ),
}

# The files and folders that `adaptation.py` rewrites. c10d's tests check the names of backends, so
# they run unchanged.
ADAPTED = (
    "_composable",
    "_tensor",
    "checkpoint",
    "pipelining",
    "tensor",
    "test_device_mesh.py",
)


def chosen(names: list[str]) -> list[str]:
    """Return the test files that `names` lists by file or area, or all test files if it is empty.

    Raises a ValueError if a name is neither a file nor an area.
    """
    every = [file for files in AREAS.values() for file in files]
    result: dict[str, None] = {}
    for name in names or [*AREAS]:
        plain = name.removesuffix(".py").removeprefix("test/").removeprefix("distributed/")
        if plain not in AREAS and plain not in every:
            raise ValueError(
                f"'{name}' is not one of the files. Name an area ({', '.join(AREAS)}) or a file of "
                f"it, such as {every[0]}"
            )
        result.update(dict.fromkeys(AREAS.get(plain, (plain,))))
    return list(result)


def area(file: str) -> str:
    """Return the area of a test file."""
    return next(name for name, files in AREAS.items() if file in files)


def root() -> Path:
    """Return upstream's folder `test`. Raises a FileNotFoundError if this program lacks it."""
    try:
        spec = importlib.util.find_spec("distributed._tensor")
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise FileNotFoundError(
            "torch's test files are not in this program: no module distributed._tensor. Run "
            "//tests/upstream/distributed:run"
        )
    return Path(spec.origin).parents[2]
